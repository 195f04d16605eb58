package remote

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"ibrun/bootstrap/guard"
	"ibrun/internal/build"
)

// The lines that the far side writes before there are frames.
const (
	agentMark = "::ibrun-agent:1 " // build, machine, pid
	needMark  = "::ibrun-need:1 "  // machine: tell me how to install
	sendMark  = "::ibrun-send:1"   // there is a place: send the binary
	failMark  = "::ibrun-fail:1 "  // what is wrong, in words
	otherMark = "::ibrun-other:1"  // where this binary lies here is another build there
	lineEnd   = "::\n"
)

// find looks for this very build on the node and becomes the guard, or asks
// what to do and does it. It is read by any POSIX shell, and passes unchanged
// through csh and fish as well as sh: no single quote, backslash, newline or
// exclamation mark. It is short, because in.rshd takes no more than a thousand
// bytes.
//
// A build in the cache is trusted by its name, since folder and file are the
// user's own. An ibrun where the parent's own lies, as on a shared file system,
// says itself if it is another build, and the parent comes again and does not
// look there. No shell waits for it: a node has enough processes of ours.
const find = `b=BUILD; c="${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}/ibrun"; f="$c/ibrun-$b"; ` +
	`if test -O "$c" && test -O "$f" && test -x "$f"; then exec "$f" :guard; fi; ` +
	`p="PATH"; if test -x "$p"; then exec "$p" :guard $b; fi; ` +
	`echo "::ibrun-need:1 $(uname -m)::"; read -r s; eval "$s"`

// install is the line that answers a need: it finds a folder that can hold the
// binary and run it, asks for it, checks it, and becomes the guard. Where the
// cache cannot be used (no home, not executable, full) a fresh folder is made
// elsewhere, whose name is never predictable. SIZE is filled in. The parent
// answers a send line with digest and size on a line, and the binary; nothing
// follows it until the agent has spoken, so it does no harm if head reads ahead.
const install = `say() { echo "::ibrun-fail:1 $1::"; exit 125; }; ` +
	`own() { test -d "$1" && test -O "$1" || return 1; if test -h "$1"; then return 1; fi; }; ` +
	`umask 077; why=; ` +
	`try() { ` +
	`t=$(mktemp "$1/.tmp.XXXXXXXXXX" 2>/dev/null) || { why="$why $1 (not writable)"; return 1; }; ` +
	`echo : >"$t" 2>/dev/null; chmod 700 "$t"; ` +
	`"$t" 2>/dev/null || { rm -f "$t"; why="$why $1 (noexec)"; return 1; }; ` +
	`head -c SIZE /dev/zero >"$t" 2>/dev/null || { rm -f "$t"; why="$why $1 (full)"; return 1; }; ` +
	`}; ` +
	`t=; d=; mkdir -p "$c" 2>/dev/null && chmod 700 "$c" 2>/dev/null; ` +
	`if own "$c" && try "$c"; then :; else ` +
	`for g in "$XDG_RUNTIME_DIR" "$TMPDIR" /tmp /var/tmp /dev/shm; do ` +
	`test -n "$g" && test -d "$g" || continue; ` +
	`d=$(mktemp -d "$g/ibrun.XXXXXXXXXX" 2>/dev/null) || { d=; why="$why $g (not writable)"; continue; }; ` +
	`if try "$d"; then f="$d/ibrun"; break; fi; rmdir "$d"; d=; done; ` +
	`test -n "$d" || say "no folder can hold and run the agent:$why"; fi; ` +
	`echo "::ibrun-send:1::"; ` +
	`read -r sum size; head -c "$size" >"$t" || { rm -f "$t"; say "the binary could not be written to $t"; }; ` +
	`s=$(sha256sum <"$t"); test "${s%% *}" = "$sum" || { rm -f "$t"; say "the binary arrived damaged"; }; ` +
	`chmod 700 "$t" && mv -f "$t" "$f" || say "the binary could not be put in place as $f"; ` +
	`if test -n "$d"; then IBRUN_SHIPPED_TO="$d"; export IBRUN_SHIPPED_TO; fi; ` +
	`exec "$f" :guard`

// Refuse is what a guard and agent of another build say when they are looked for
// where the parent's binary lies: wanted is the parent's build, or empty if any will do.
func Refuse(to io.Writer, wanted string) (refused bool) {
	if wanted == "" || wanted == build.ID() {
		return false
	}
	_, _ = io.WriteString(to, otherMark+lineEnd)
	return true
}

// installer is install with its blank filled in, as a line.
func installer() string {
	return strings.ReplaceAll(install, "SIZE", strconv.FormatInt(build.Size(), 10)) + "\n"
}

// command is the remote command: one word for the login shell, whichever that
// is. An agent that the user has installed is started as it is; otherwise one is
// looked for where this binary lies here, unless that is empty.
func command(agentPath, here string) string {
	if agentPath != "" {
		return "exec " + quote(agentPath) + " " + guard.Role
	}
	text := strings.NewReplacer("BUILD", build.ID(), "PATH", safePath(here)).Replace(find)
	return "exec /bin/sh -c '" + text + "'"
}

// safePath is a path that may stand in double quotes within single quotes in
// any shell, or one that does not exist: then the node is sent the binary.
func safePath(p string) string {
	if p == "" {
		return "/nonexistent"
	}
	for _, c := range p {
		if !strings.ContainsRune("/._-+@%:,=", c) && !(c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z') {
			return "/nonexistent"
		}
	}
	return p
}

// quote makes one word of s for a login shell. CheckAgentPath has seen it.
func quote(s string) string { return "'" + s + "'" }

// CheckAgentPath says whether a path can be given to every login shell.
func CheckAgentPath(p string) error {
	if p != "" && (safePath(p) != p || p[0] != '/') {
		return fmt.Errorf("agent path %q: write an absolute path of letters, digits and /._-+@%%:,= only", p)
	}
	return nil
}
