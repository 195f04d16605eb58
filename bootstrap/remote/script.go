package remote

import (
	"fmt"
	"strconv"
	"strings"

	"ibrun/internal/build"
)

// The lines that the far side writes before there are frames.
const (
	agentMark = "::ibrun-agent:1 " // build, machine, pid
	needMark  = "::ibrun-need:1 "  // machine: send me the binary
	failMark  = "::ibrun-fail:1 "  // what is wrong, in words
	lineEnd   = "::\n"
)

// script finds this very build on the node or asks for it, and becomes the
// guard. It is read by any POSIX shell, and passes unchanged through csh and
// fish as well as sh: no single quote, backslash, newline or exclamation mark.
//
// A build in the cache is trusted by its name, since folder and file are the
// user's own. An ibrun where the parent's own lies, on a shared file system,
// says itself, with code 88, that it is another build. Where that folder cannot be used (no
// home, not executable, full) a fresh one is made elsewhere; its name is never
// predictable.
//
// BUILD, PATH and SIZE are filled in. The parent answers a need line with one
// line, digest and size, and the binary; nothing follows it until the agent
// has spoken, so it does no harm if head reads ahead.
const script = `b=BUILD; n=ibrun-$b; ` +
	`say() { echo "::ibrun-fail:1 $1::"; exit 125; }; ` +
	`own() { test -d "$1" && test -O "$1" || return 1; if test -h "$1"; then return 1; fi; }; ` +
	`c="${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}/ibrun"; ` +
	`if own "$c" && test -x "$c/$n" && test -O "$c/$n"; then exec "$c/$n" :guard; fi; ` +
	`p="PATH"; if test -x "$p"; then "$p" :guard $b; r=$?; test $r = 88 || exit $r; fi; ` +
	`umask 077; why=; ` +
	`try() { ` +
	`t=$(mktemp "$1/.tmp.XXXXXXXXXX" 2>/dev/null) || { why="$why $1 (not writable)"; return 1; }; ` +
	`echo : >"$t" 2>/dev/null; chmod 700 "$t"; ` +
	`"$t" 2>/dev/null || { rm -f "$t"; why="$why $1 (noexec)"; return 1; }; ` +
	`head -c SIZE /dev/zero >"$t" 2>/dev/null || { rm -f "$t"; why="$why $1 (full)"; return 1; }; ` +
	`}; ` +
	`t=; d=; mkdir -p "$c" 2>/dev/null && chmod 700 "$c" 2>/dev/null; ` +
	`if own "$c" && try "$c"; then f="$c/$n"; else ` +
	`for g in "$XDG_RUNTIME_DIR" "$TMPDIR" /tmp /var/tmp /dev/shm; do ` +
	`test -n "$g" && test -d "$g" || continue; ` +
	`d=$(mktemp -d "$g/ibrun.XXXXXXXXXX" 2>/dev/null) || { why="$why $g (not writable)"; continue; }; ` +
	`if try "$d"; then f="$d/ibrun"; break; fi; rmdir "$d"; d=; done; ` +
	`test -n "$d" || say "no folder can hold and run the agent:$why"; fi; ` +
	`echo "::ibrun-need:1 $(uname -m)::"; ` +
	`read -r sum size; head -c "$size" >"$t" || { rm -f "$t"; say "the binary could not be written to $t"; }; ` +
	`s=$(sha256sum <"$t"); test "${s%% *}" = "$sum" || { rm -f "$t"; say "the binary arrived damaged"; }; ` +
	`chmod 700 "$t" && mv -f "$t" "$f" || say "the binary could not be put in place as $f"; ` +
	`if test -n "$d"; then IBRUN_SHIPPED_TO="$d"; export IBRUN_SHIPPED_TO; fi; ` +
	`exec "$f" :guard`

// command is the remote command: one word for the login shell, whichever that
// is. An agent that the user has installed is started as it is.
func command(agentPath string) string {
	if agentPath != "" {
		return "exec " + quote(agentPath) + " :guard"
	}
	text := strings.NewReplacer("BUILD", build.ID(), "PATH", safePath(build.Path()), "SIZE", strconv.FormatInt(build.Size(), 10)).Replace(script)
	return "exec /bin/sh -c '" + text + "'"
}

// safePath is a path that may stand in double quotes within single quotes in
// any shell, or one that does not exist: then the node is sent the binary.
func safePath(p string) string {
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
