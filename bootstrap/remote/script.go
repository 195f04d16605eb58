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

// These marks begin the lines that a node writes before the first frame (docs/dev/protocol.md). The words in the
// comments follow the mark.
const (
	agentMark = "::ibrun-agent:1 " // build, machine, pid
	needMark  = "::ibrun-need:1 "  // machine: the node does not have this build; send the script install
	sendMark  = "::ibrun-send:1"   // gzip or nothing: send the binary, compressed with gzip or plain
	failMark  = "::ibrun-fail:1 "  // text: the reason that the node cannot start an agent
	otherMark = "::ibrun-other:1"  // another build is at the path of the parent's binary
	aloneMark = "::ibrun-alone:1 " // host: in a step of several hosts, this host needs a session of its own
	lineEnd   = "::\n"
)

// find is the script that looks for this build on a node and becomes the reaper. If it does not find the build, it
// writes needMark and executes the line that the parent sends. Any POSIX shell can read the script. It has no single
// quote, backslash, newline or exclamation mark, so that the login shells sh, csh and fish pass it unchanged to
// /bin/sh. It is short, because in.rshd accepts at most 1000 bytes.
//
// The shell function own succeeds if only root and the user can replace or change a file. Its arguments are the file
// and the folders above it. Each must be owned by root or the user and not writable by group or others, as in sshd's
// option StrictModes. A folder with the sticky bit, such as /tmp, may be writable if the folder below it is owned by
// root or the user. Symbolic links are refused. A single stat examines all paths, and /proc/self first to learn the
// user's ID. The function sets i to the owner, mode, inode, size and time of change of the file.
//
// A copy in the cache is executed if i is still the same as when its digest was checked: install has written i to a
// file beside the copy. The script executes the copy from within its folder, so that changes to the folders above do
// not matter. A binary at the path of the parent's binary, as on a shared file system, writes otherMark if it is
// another build. Then the parent retries without this path. The shell execs the binary, so no shell remains on the
// node. A wait for the parent ends after 60 s if the node has the program timeout.
const find = search + `echo "::ibrun-need:1 $(uname -m)::"; ` +
	`for w in "timeout --foreground 60" "timeout 60" ""; do $w true 2>/dev/null && break; done; ` +
	`s=$($w head -n 1); eval "$s"`

// search is the part of find that looks for a copy in the cache, then for a binary at the path of the parent's binary.
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

// orAlone follows search in the script of a step with several hosts. If a host does not have the build, it asks with
// aloneMark for a session of its own, in which the parent can send the binary.
const orAlone = `echo "` + aloneMark + `$` + stepHost + `::"`

// mostCommand is the maximum size in bytes of a command that the rsh server in.rshd accepts. mostFind is the maximum
// size in bytes of the script find in such a command, which begins with exec /bin/sh.
const (
	mostCommand = 1000
	mostFind    = mostCommand - len("exec /bin/sh -c ''")
)

// install is the line that the parent sends in reply to needMark. It uses the copy in the cache if its digest is right.
// Otherwise it finds a folder in which the binary can be stored and executed, asks for the binary with sendMark, checks
// it, and becomes the reaper. If the cache cannot be used (no home, not executable, full, writable by others), the
// script makes a new folder with a random name elsewhere. It changes into the folder, so that nobody can replace the
// folder after the check. Only the cache requires the program stat.
//
// The function installer replaces these words: SUM by the SHA-256 digest of the binary, SIZE by its size in bytes,
// PACKED by the size of the compressed binary (0 if there is none), ROOM by the sum of both sizes, LIMIT and STEP by
// the time limits in seconds for the transfer and for each other command, ROLE by the role of the process.
//
// If gzip works on the node and PACKED is not 0, the parent sends the compressed binary. The script stores it beside
// the binary, so that this node's agent can send it to its own children.
//
// The parent sends nothing after the binary until the agent has sent its first line, so head may read ahead. Unless
// SIGKILL ends the shell, it removes incomplete binaries: if the link is closed, head reaches the end of its input, or
// SIGPIPE ends the shell. The program timeout limits each command in case the network is cut or a disk hangs. The
// script uses its option --foreground if it exists, because otherwise the parent's signal does not reach the commands.
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

// Refuse writes otherMark to the writer to and returns true if wanted is not the ID of this build. wanted is the build
// of the parent, which the script passes to a binary at the path of the parent's binary. Empty accepts any build.
func Refuse(to io.Writer, wanted string) (refused bool) {
	if wanted == "" || wanted == build.ID() {
		return false
	}
	_, _ = io.WriteString(to, otherMark+lineEnd)
	return true
}

// installer returns the script install as a line, with its words replaced for a parent that ends the session after the
// time most without progress.
func installer(most time.Duration, role string) (string, error) {
	size, digest, err := build.Sum()
	if err != nil {
		return "", fmt.Errorf("read this binary: %w", err)
	}
	packedSize := int64(0) // if there is no compressed binary, the parent sends the plain one
	if p, err := packed(); err == nil {
		packedSize = p.Size()
	}
	seconds := func(d time.Duration) string { return strconv.FormatInt(int64(d/time.Second)+1, 10) }
	bytes := func(n int64) string { return strconv.FormatInt(n, 10) }
	fill := strings.NewReplacer("ROLE", role, "SUM", digest, "SIZE", bytes(size),
		"PACKED", bytes(packedSize), "ROOM", bytes(size+packedSize),
		"LIMIT", seconds(max(most, shipTime)), "STEP", seconds(most))
	return fill.Replace(install) + "\n", nil
}

// command returns the command line for the login shell of a node. If how.AgentPath is set, the command executes this
// path. Otherwise it looks for this build at the path here and in the cache. It does not look at here if here is empty,
// in a cache, not ShellSafe, or too long for mostCommand. role is the first argument of the binary.
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

// atOnce executes an installed binary without a check of its owner. sh, csh and fish can read it. The script that
// searches for a copy must follow it, in case the binary does not exist.
const atOnce = `test -x PATH && exec PATH ROLE BUILD; `

// installed reports whether path is below /usr or /opt, where only root installs files on each node (Filesystem
// Hierarchy Standard 3.0, 3.13 and 4). On this machine, only root may be able to change the file and the folders above.
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

// taskText returns the script for the tasks of a step with several hosts. The parameters here and role have the
// same meaning as in command.
func taskText(how job.LaunchOptions, here, role string) string {
	if how.AgentPath != "" {
		return "exec " + quote(how.AgentPath) + " " + role
	}
	if installed(here) {
		return fillIn(atOnce+searchCopy+orAlone, here, role)
	}
	return fillIn(search+orAlone, here, role)
}

// fillIn replaces the words BUILD, PATH and ROLE of a script. If the path here is in a cache or not ShellSafe (the
// empty path is not), it removes searchPath from the script.
func fillIn(script, here, role string) string {
	if filepath.Base(here) == cachedName() || !job.ShellSafe(here) {
		script = strings.Replace(script, searchPath, "", 1)
	}
	return strings.NewReplacer("BUILD", build.ID(), "PATH", here, "ROLE", role).Replace(script)
}

// quote puts s in single quotes for a login shell. s must be ShellSafe.
func quote(s string) string { return "'" + s + "'" }

// shipTime is the time limit for the transfer of the binary, unless the time limit of the session is longer.
const shipTime = 60 * time.Second
