package remote

import (
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"ibrun/internal/build"
	"ibrun/internal/job"
)

// The lines that the far side writes before there are frames.
const (
	agentMark = "::ibrun-agent:1 " // build, machine, pid
	needMark  = "::ibrun-need:1 "  // machine: tell me how to install
	sendMark  = "::ibrun-send:1"   // unpacker, if there is one: there is a place for it, send the binary
	failMark  = "::ibrun-fail:1 "  // what is wrong, in words
	otherMark = "::ibrun-other:1"  // where this binary lies here is another build there
	aloneMark = "::ibrun-alone:1 " // host: of a step with several, this one needs a session of its own
	lineEnd   = "::\n"
)

// find looks for this very build on the node and becomes the reaper, or asks
// what to do and does it. It is read by any POSIX shell, and passes unchanged
// through csh and fish as well as sh: no single quote, backslash, newline or
// exclamation mark. It is short, because in.rshd takes no more than a thousand
// bytes.
//
// own lets a file be run that nobody but root and the user can put there or
// change. Its words are the file and the folders above it; each must be root's or
// the user's and not writable by group or others, as sshd wants it for its keys
// (StrictModes). A folder like /tmp, in which everybody writes and keeps his own,
// may stand above a folder that is root's or the user's. Links are refused. One
// stat looks at all of it, at itself first to learn who the user is. It leaves in
// i what the file was when it looked: owner, mode, inode, size, time of change.
//
// A copy in the cache is run if it still is what its digest was taken of: install
// wrote i down beside it. It is run from within the folder, so that what others
// may do above it does not matter. An ibrun where the parent's own lies, as on a
// shared file system, says itself if it is another build, and the parent comes
// again and does not look there. No shell waits for it: a node has enough
// processes of ours. Nor does a shell wait for ever for a parent that is gone.
const find = search + `echo "::ibrun-need:1 $(uname -m)::"; ` +
	`for w in "timeout --foreground 60" "timeout 60" ""; do $w true 2>/dev/null && break; done; ` +
	`s=$($w head -n 1); eval "$s"`

// search is the part of find that looks: for a copy in the cache, and where the parent's own lies.
const search = searchCopy + searchPath

const searchCopy = `b=BUILD; f="./ibrun-$b"; c="${XDG_CACHE_HOME:-${HOME:+$HOME/.cache}}"; ` +
	`case "$c" in /*) c="$c/ibrun";; *) c=;; esac; ` +
	`own() { o=; i=; k=; x=$(stat -c %u.%A.%i.%s.%.9Z /proc/self/. "$@" 2>/dev/null) || return 1; ` +
	`for r in $x; do o="${o:-${r%%.*}}"; i="${i:-${k:+$r}}"; ` +
	`case "${r%%.*}" in 0|$o) ;; *) return 1;; esac; r="${r#*.}"; ` +
	`case "$r $k" in [d-]????-??-?.*|d????????t.*" d"*) k="$r";; *) return 1;; esac; done; }; ` +
	`if test -x "$c/$f" && cd -P "$c" && own "$f" . && { read -r s <"$f.sum"; } 2>/dev/null && test "$s" = "$i"; ` +
	`then exec "$f" ROLE; fi; `

const searchPath = `p="PATH"; if test -f "$p" && test -x "$p"; then ` +
	`l=; a="$p"; while test -n "$a"; do l="$l $a"; a="${a%/*}"; done; ` +
	`if own $l /; then exec "$p" ROLE $b; fi; fi; `

// orAlone follows search where a step has several hosts: each is sent on its own what it has not.
const orAlone = `echo "` + aloneMark + `$` + stepHost + `::"`

// mostCommand is what in.rshd takes, and mostFind what is left of it for find.
const (
	mostCommand = 1000
	mostFind    = mostCommand - len("exec /bin/sh -c ''")
)

// install is the line that answers a need: it takes the copy in the cache if its digest is right,
// or finds a folder that can hold the binary and run it, asks for it, checks it, and becomes the
// reaper. Where the cache cannot be used (no home, not executable, full, writable by others) a
// fresh folder is made elsewhere, whose name is never predictable. Either is entered, so that it
// stays the folder that was checked. Only a cache needs stat.
//
// The function installer replaces these words: SUM by the SHA-256 digest of the binary, SIZE by its size in bytes,
// PACKED by the size of the compressed binary (0 if there is none), ROOM by the sum of both sizes, LIMIT and STEP by
// the time limits in seconds for the transfer and for each other command, ROLE by the role of the process.
//
// If gzip works on the node and PACKED is not 0, the parent sends the compressed binary. The script stores it beside
// the binary, so that this node's agent can send it to its own children.
//
// Nothing follows the binary until the agent has spoken, so it does no harm if
// head reads ahead. However the shell ends, but for SIGKILL, it leaves no part of
// a binary behind: the end of the link is the end of head's input, and a signal
// to a shell that writes to a parent that is gone. Without either, as when the
// network is cut or a disk hangs, its steps are limited. That is left to --foreground
// where it exists, as otherwise the parent's signal does not reach them.
const install = `say() { echo "::ibrun-fail:1 $1::"; exit 125; }; ` +
	`t=; d=; why=; umask 077; v="${w:+${w% *} STEP}"; w="${w:+${w% *} LIMIT}"; ` +
	`tidy() { if test -n "$t"; then rm -f "$t" "$t.z"; fi; if test -n "$d"; then rm -f "$f.gz"; cd /; rmdir "$d"; fi; }; ` +
	`trap tidy EXIT; trap "exit 125" HUP INT TERM PIPE; ` +
	`become() { trap - EXIT HUP INT TERM PIPE; exec "$f" ROLE; }; ` +
	`fits() { x=$($v sha256sum <"$1") && case "${x%% *}" in SUM) ;; *) return 1;; esac; }; ` +
	`keep() { own "$f" . || say "others may write to $c"; echo "$i" >"$f.sum"; ` +
	`IBRUN_CACHED=1; export IBRUN_CACHED; become; }; ` +
	`try() { ` +
	`t=$($v mktemp ./.tmp.XXXXXXXXXX 2>/dev/null) || { t=; why="$why $PWD (not writable)"; return 1; }; ` +
	`echo : >"$t" 2>/dev/null; chmod 700 "$t"; ` +
	`"$t" 2>/dev/null || { rm -f "$t"; t=; why="$why $PWD (noexec)"; return 1; }; ` +
	`$v head -c ROOM /dev/zero >"$t" 2>/dev/null || { rm -f "$t"; t=; why="$why $PWD (full)"; return 1; }; ` +
	`}; ` +
	`if test -n "$c"; then ` +
	`if { { test -n "$XDG_CACHE_HOME" || test -d "$HOME"; } && ` +
	`mkdir -p "$c" && cd -P "$c" && own .; } 2>/dev/null; ` +
	`then if test -f "$f" && own "$f" . && fits "$f" && chmod 700 "$f"; then keep; fi; try; ` +
	`else why=" $c (not writable, or by others too)"; fi; fi; ` +
	`if test -z "$t"; then for g in "$XDG_RUNTIME_DIR" "$TMPDIR" /tmp /var/tmp /dev/shm; do ` +
	`case "$g" in /*) ;; *) continue;; esac; test -d "$g" || continue; ` +
	`d=$($v mktemp -d "$g/ibrun.XXXXXXXXXX" 2>/dev/null) || { d=; why="$why $g (not writable)"; continue; }; ` +
	`if cd -P "$d" && test -O . && try; then d="$PWD"; f=./ibrun; break; fi; cd /; rmdir "$d"; d=; done; fi; ` +
	`test -n "$t" || say "no folder can hold and run the agent:$why"; ` +
	`z=; if test PACKED -gt 0 && x=$(echo x | $v gzip -c 2>/dev/null | $v gzip -dc 2>/dev/null) && ` +
	`test "$x" = x; then z=gzip; fi; ` +
	`echo "::ibrun-send:1 $z::"; ` +
	`if test -n "$z"; then $w head -c PACKED >"$t.z"; $v gzip -dc <"$t.z" 2>/dev/null | $v head -c SIZE >"$t"; ` +
	`else $w head -c SIZE >"$t"; fi; fits "$t" || say "the binary arrived damaged or in part"; ` +
	`if test -n "$z"; then mv -f "$t.z" "$f.gz" || rm -f "$t.z"; fi; ` +
	`mv -f "$t" "$f" || say "the binary could not be put in place in $PWD"; t=; ` +
	`if test -z "$d"; then keep; fi; IBRUN_SHIPPED_TO="$d"; export IBRUN_SHIPPED_TO; become`

// Refuse is what a reaper and agent of another build say when they are looked for
// where the parent's binary lies: wanted is the parent's build, or empty if any will do.
func Refuse(to io.Writer, wanted string) (refused bool) {
	if wanted == "" || wanted == build.ID() {
		return false
	}
	_, _ = io.WriteString(to, otherMark+lineEnd)
	return true
}

// installer is install with its blanks filled in, as a line, for a parent that
// gives up when it sees no progress for so long.
func installer(most time.Duration, role string) (string, error) {
	size, digest, err := build.Sum()
	if err != nil {
		return "", fmt.Errorf("read this binary: %w", err)
	}
	packedSize := int64(0) // if there is no compressed binary, the parent sends the plain one
	if p, err := packed(); err == nil {
		packedSize = p.size
	}
	seconds := func(d time.Duration) string { return strconv.FormatInt(int64(d/time.Second)+1, 10) }
	bytes := func(n int64) string { return strconv.FormatInt(n, 10) }
	fill := strings.NewReplacer("ROLE", role, "SUM", digest, "SIZE", bytes(size),
		"PACKED", bytes(packedSize), "ROOM", bytes(size+packedSize),
		"LIMIT", seconds(max(most, shipTime)), "STEP", seconds(most))
	return fill.Replace(install) + "\n", nil
}

// command is the remote command: one word for the login shell, whichever that
// is. An agent that the user or root has installed is started as it is; otherwise one
// is looked for where this binary lies here, unless that is empty, a copy in a cache,
// or too long. role is what the binary becomes.
func command(how job.LaunchOptions, here, role string) string {
	join := joining(how)
	if how.AgentPath != "" {
		if join != "" {
			return "exec /bin/sh -c '" + join + "exec " + how.AgentPath + " " + role + "'"
		}
		return "exec " + quote(how.AgentPath) + " " + role
	}
	if join == "" && here != "" && installed(here) {
		if text := strings.ReplaceAll(atOnce, "PATH", here) + command(how, "", role); len(text) <= mostCommand {
			return fillIn(text, "", role)
		}
	}
	text := fillIn(find, here, role)
	if len(text) > mostFind && here != "" {
		return command(how, "", role)
	}
	return "exec /bin/sh -c '" + join + text + "'"
}

// atOnce starts an ibrun that is installed, without a shell that looks whose it is. csh and fish
// read it as sh does. Where there is none the search for a copy follows.
const atOnce = `test -x PATH && exec PATH ROLE BUILD; `

// installed reports whether a file lies where no node lets anybody but root put one: below /usr or
// /opt (Filesystem Hierarchy Standard 3.0, 3.13 and 4), and here that is so.
func installed(path string) bool {
	if !job.ShellSafe(path) || filepath.Clean(path) != path ||
		!strings.HasPrefix(path, "/usr/") && !strings.HasPrefix(path, "/opt/") {
		return false
	}
	for at := path; ; at = filepath.Dir(at) {
		var st unix.Stat_t
		kind := uint32(unix.S_IFDIR)
		if at == path {
			kind = unix.S_IFREG
		}
		if unix.Lstat(at, &st) != nil || st.Mode&unix.S_IFMT != kind || st.Uid != 0 || st.Mode&0o022 != 0 {
			return false
		}
		if at == "/" {
			return true
		}
	}
}

// taskText is what a shell that is a task of a step with several hosts reads.
func taskText(how job.LaunchOptions, here, role string) string {
	if how.AgentPath != "" {
		return "exec " + quote(how.AgentPath) + " " + role
	}
	if installed(here) {
		return fillIn(atOnce+searchCopy+orAlone, here, role)
	}
	return fillIn(search+orAlone, here, role)
}

// fillIn fills the blanks of a script. Without a path, or with one that a shell could take for
// something else, it does not look there.
func fillIn(script, here, role string) string {
	if filepath.Base(here) == cachedName() || !job.ShellSafe(here) {
		script = strings.Replace(script, searchPath, "", 1)
	}
	return strings.NewReplacer("BUILD", build.ID(), "PATH", here, "ROLE", role).Replace(script)
}

// quote makes one word of s for a login shell; s is ShellSafe.
func quote(s string) string { return "'" + s + "'" }

// shipTime bounds the sending of the binary, however it progresses, unless a
// session may take longer anyway.
const shipTime = 60 * time.Second
