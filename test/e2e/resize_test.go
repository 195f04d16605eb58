package e2e

import (
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/executable"
)

// remoteShell is a command for --launcher-exec by which all hosts are this machine, but for those
// that are down.
func remoteShell(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "shell")
	script := `#!/bin/sh
case $1 in down*) echo "$1: no route to host" >&2; exit 255;; esac
shift
exec sh -c "$*"
`
	require.NoError(t, executable.Write(path, []byte(script)))
	return path
}

// heat runs examples/resize, and waits for so many changes of its size.
func heat(t *testing.T, program, changes string) *running {
	return controlled(t, "--launcher-exec", remoteShell(t), "--iface", "lo", "--lazy", "--stats", "--hosts", "a:2,b:2",
		program, "-rows", "48", "-steps", "60", "-every", "5", "-changes", changes)
}

// A stencil grows from 2 nodes to 3 while it computes, shrinks to 2 and grows again. Its result is
// that of the undisturbed run. Ranks that stay look up only those that come: each rank needs the
// two beside it, and the first ranks have found theirs before. A host that is down costs a line.
func TestGrowAndShrink(t *testing.T) {
	program := withoutC(t, "examples/resize")
	sum := regexp.MustCompile(`sum ([0-9a-f]{16}); 4 ranks at the end, resized (\d) times`)
	quiet := heat(t, program, "0")
	require.Equal(t, 0, quiet.ends(), quiet.err.String())
	want := sum.FindStringSubmatch(quiet.out.String())
	require.Equal(t, "0", want[2])

	r := heat(t, program, "4")
	var o outcome
	ask := func(code int, pattern string, args ...string) {
		t.Helper()
		eventually(t, patience/2, "the program has called Resize", func() bool {
			o = r.ctl(args...)
			return !regexp.MustCompile("no job of yours|not called Resize|being launched").MatchString(o.stderr)
		})
		require.Equal(t, code, o.code, o.stderr)
		require.Regexp(t, pattern, string(o.stdout)+o.stderr)
	}
	ask(125, `^ibrun: down could not be started: .*no route to host.*; the job goes on with 2 nodes\n$`,
		"grow", "c,down")
	ask(125, `^ibrun: the job has a node on b already\n$`, "grow", "b")
	ask(125, `^ibrun: the job has 2 nodes: from 1 to 1 of them can leave\n$`, "shrink", "2")
	ask(0, `^ready for 6 ranks on 3 nodes: .*\nthe job has 6 ranks on 3 nodes\n$`, "grow", "c:2")
	require.Contains(t, string(r.ctl("status").stdout), "6 ranks on 3 nodes")
	ask(0, `^ready for 4 ranks on 2 nodes: .*\nthe job has 4 ranks on 2 nodes\n$`, "shrink", "1")
	require.Regexp(t, ` +2 +4 .* running`, string(r.ctl("list").stdout))
	ask(0, `the job has 7 ranks on 3 nodes\n$`, "grow", "c:3")
	ask(0, `the job has 4 ranks on 2 nodes\n$`, "shrink", "1")
	require.Equal(t, 0, r.ends(), r.err.String())
	got := sum.FindStringSubmatch(r.out.String())
	require.Equal(t, []string{want[1], "4"}, got[1:], r.out.String())

	looked := regexp.MustCompile(`look-ups (\d+) by (\d+) ranks`)
	few := looked.FindStringSubmatch(quiet.err.String())
	require.Contains(t, []string{"1", "2"}, few[1], "ranks 1 and 2, or one, when it has heard from the other first")
	most := looked.FindStringSubmatch(r.err.String())
	require.Equal(t, "9", most[2], "4, 2 and 3 ranks")
	require.LessOrEqual(t, number(most[1]), 2+3*2, "of those that come, and of ranks that move rows to them")
}

// Programs that cannot change their size are told so, and go on.
func TestResizeRefused(t *testing.T) {
	for name, args := range map[string][]string{
		"plain":    {"--launcher", "local", "--hosts", "a,b", "sleep", "60"},
		"restarts": {"--launcher", "local", "--hosts", "a,b", "--on-failure", "restart", "sleep", "60"},
	} {
		t.Run(name, func(t *testing.T) {
			r := controlled(t, args...)
			r.until("2 ranks", "status")
			for _, words := range [][]string{{"grow", "c"}, {"shrink", "1"}} {
				o := r.ctl(words...)
				require.Equal(t, 125, o.code)
				why := `its program has not called Resize|with --on-failure restart.* keeps its size`
				require.Regexp(t, why, o.stderr)
			}
			require.Contains(t, string(r.ctl("status").stdout), "2 ranks on 2 nodes")
			require.Equal(t, 0, r.ctl("end").code)
			require.Equal(t, 143, r.ends())
		})
	}
}
