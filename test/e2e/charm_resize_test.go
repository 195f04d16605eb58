package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/test/executable"
	"ibrun/test/launch"
	"ibrun/test/waitfor"
)

// resizing makes a copy of the program test/netlrts that contains the string realloc_ack, and returns the path of the
// copy. By that string ibrun recognizes a Charm++ program that can change its number of processes.
func resizing(t *testing.T) string {
	b, err := os.ReadFile(netlrtsProgram(t))
	require.NoError(t, err)
	b = bytes.ReplaceAll(b, []byte("realloc+ack"), []byte("realloc_ack"))
	path := filepath.Join(t.TempDir(), "resizing")
	require.NoError(t, executable.Write(path, b))
	return path
}

// remoteShell returns a command for --launcher-exec that runs all hosts on this machine. It fails for hosts whose name
// begins with down.
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

// TestNetlrtsResizes grows and shrinks a Charm++ program that can change its number of processes. After each change the
// processes that stay replace themselves by exec, and all processes must get a new table of addresses. If a new host is
// down, the request must fail with one line, and the program must go on with the same processes.
func TestNetlrtsResizes(t *testing.T) {
	dir := t.TempDir()
	on := []string{"--launcher-exec", remoteShell(t), "--iface", "lo", "--hosts", "a:2,b:2", resizing(t)}
	r := launch.Start(t, append(on, "+shrinkexpand_basedir", dir, "barrier", "resize", "barrier", "0/table", "ring",
		"print:grown", "barrier", "resize", "0/table", "ring", "print:shrunk", "serve", "end:5")...)
	var o launch.Outcome
	ask := func(code int, pattern string, args ...string) {
		t.Helper()
		waitfor.Require(t, "the program can change its size", func() bool {
			o = r.Ctl(args...)
			return !regexp.MustCompile("no job of yours|not called Resize|being launched").MatchString(o.Stderr)
		})
		require.Equal(t, code, o.Code, "%s %s", o.Stderr, r.Err.String())
		require.Regexp(t, pattern, o.Stdout+o.Stderr)
	}
	ask(125, `^ibrun: down could not be started: .*no route to host.*; the job goes on with 2 nodes\n$`,
		"grow", "c,down")
	ask(0, `^ready for 7 ranks on 4 nodes: .*\nthe job has 7 ranks on 4 nodes\n$`, "grow", "c:2,d:1")
	ask(0, `^ready for 2 ranks on 1 node: .*\nthe job has 2 ranks on 1 node\n$`, "shrink", "3")
	var got []string
	for _, pe := range []string{"1", "0"} { // PEs, processing elements, are threads of Charm++. Two are left.
		waitfor.Require(t, "PE "+pe, func() bool { o = r.Ctl("ccs", "bye", "--pe", pe); return o.Code == 0 })
		got = append(got, o.Stdout)
	}
	require.Equal(t, []string{"process 1, PE 1, bye: ", "process 0, PE 0, bye: "}, got)
	require.Equal(t, 5, r.Wait(), r.Err.String())
	out := r.Out.String()
	require.Equal(t, 7, strings.Count(out, "says grown\n"), out)
	require.Equal(t, 2, strings.Count(out, "says shrunk\n"), out)
	require.Contains(t, out, "7 processes: 1/2@127.0.0.1")
	require.Contains(t, out, " 1/1@127.0.0.1\n", "the last node has one process")
	require.Contains(t, out, "2 processes: 1/2@127.0.0.1 1/2@127.0.0.1\n")
}

// TestNetlrtsResizeRefused requests a change of the number of processes of Charm++ programs that cannot change it. The
// first is not built for that, the second has several threads (PEs) in a process, and the third lacks the handler
// set_bitmap. The request must fail, and the program must go on. If a program changes its number of processes without a
// request, the job must fail.
func TestNetlrtsResizeRefused(t *testing.T) {
	for name, argv := range map[string][]string{
		"not built for it": {netlrtsProgram(t)}, "several PEs": {resizing(t), "+ppn", "2"},
	} {
		on := append([]string{"--launcher", "local", "--hosts", "a,b"}, argv...)
		r := launch.Start(t, append(on, "serve", "end:0")...)
		waitfor.Require(t, name, func() bool {
			return strings.Contains(r.Ctl("shrink", "1").Stderr, "none of Charm++ built for it (--enable-shrinkexpand)")
		})
		require.Equal(t, 0, r.Ctl("ccs", "hi", "--pe", "0").Code, name)
		r.End()
	}
	r := launch.Start(t, "--launcher", "local", "--hosts", "a,b", resizing(t), "0/ignore", "0/ignore", "barrier", "serve",
		"end:0")
	for _, change := range [][]string{{"shrink", "1"}, {"grow", "c"}} {
		var o launch.Outcome
		waitfor.Require(t, "the program can change its size", func() bool {
			o = r.Ctl(change...)
			return strings.Contains(o.Stderr, "has no handler set_bitmap")
		})
		require.Equal(t, 125, o.Code)
	}
	r.End()
	o := launch.Ibrun(t, "--launcher", "local", "--hosts", "a,b", resizing(t), "0/realloc:3", "barrier")
	require.Equal(t, 1, o.Code)
	require.Contains(t, o.Stderr, "it goes on with 3 processes, which nobody has asked ibrun for")
}
