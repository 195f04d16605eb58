//go:build mpi

package mpi

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/test/fleet/suite"
	"ibrun/test/launch"
)

// withLIBI compiles the C++ program testdata/libi.cc with the sources of the library for tools (cgo/tool), which are in
// C, and returns the path of the program. The compiler adds sanitizers to both.
func withLIBI(t *testing.T) string {
	t.Helper()
	sources, err := filepath.Glob("../../cgo/tool/*.c")
	require.NoError(t, err)
	require.NotEmpty(t, sources)
	dir := t.TempDir()
	sanitized := "-fsanitize=address,undefined"
	argv := []string{"g++", "-std=c++11", "-O1", "-g", "-Wall", "-Wextra", "-Wshadow", "-Werror", sanitized,
		"-fno-sanitize-recover=all", "-I../../cgo/tool", "-I../../cgo/tool/libi", "testdata/libi.cc",
		"../../cgo/tool/libi/libi.cc"}
	for _, source := range append(sources, "../../cgo/pmgr/frame.c") {
		argv = append(argv, suite.Compile(t, filepath.Join(dir, filepath.Base(source)+".o"), "gcc", "-std=c11", "-O1",
			"-D_GNU_SOURCE", sanitized, "-I../../cgo/tool", "-c", source))
	}
	return compiled(t, "libi", argv...)
}

// TestLIBI runs a program that starts several sessions of LIBI, an API for daemons of tools. The members of a session
// must have the hosts, ranks, program and environment of that session, and must exchange data only with each other. A
// session on the hosts of an existing job must use that job. A session on other hosts must start a new job with ibrun.
func TestLIBI(t *testing.T) {
	c := exec.CommandContext(t.Context(), withLIBI(t))
	c.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+launch.SocketFolder(t), "IBRUN="+launch.Program,
		"IBRUN_LIBI_ARGS=--launcher  local")
	got := launch.Finish(t, c)
	require.Equal(t, 0, got.Code, got.Stderr)
	require.Empty(t, got.Stderr)
	var want []string
	say := func(job int, name string, rank, size int, host, hosts, variable string) {
		want = append(want, fmt.Sprintf("%s %d/%d on %s job %d: %s %s", name, rank, size, host, job, hosts, variable))
	}
	say(0, "comm", 0, 1, "a", "a", `a "b" c`)
	for i, host := range []string{"b", "b", "c", "c", "c", "c"} {
		name := "back"
		if i >= 4 {
			name = "it's"
		}
		say(0, name, i, 6, host, "bbcccc", "-")
	}
	for i := range 2 {
		say(0, "late", i, 2, "c", "cc", "-")
		say(1, "fresh", i, 2, "d", "dd", "-")
	}
	say(0, "late", 0, 1, "a", "a", `a "b" c`)
	slices.Sort(want)
	jobs := map[string]int{}
	lines := launch.Lines(got.Stdout)
	for i, line := range lines {
		lines[i] = regexp.MustCompile(`job \w+`).ReplaceAllStringFunc(line, func(id string) string {
			if _, known := jobs[id]; !known {
				jobs[id] = len(jobs)
			}
			return fmt.Sprintf("job %d", jobs[id])
		})
	}
	slices.Sort(lines)
	require.Equal(t, want, lines)
}
