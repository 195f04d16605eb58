package e2e

import (
	"bytes"
	"debug/buildinfo"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/test/launch"
)

// buildSolver creates a module that requires the module ibrun of this repository, as the README describes. Its program
// is examples/ring, which imports package ibrun. buildSolver builds the program without a network and returns its path.
// build is the command that builds it, such as "go build". buildSolver appends options of go build.
func buildSolver(t *testing.T, build ...string) string {
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	dir := t.TempDir()
	// Copy go.sum, because without a network the go command cannot look up checksums.
	for from, to := range map[string]string{"examples/ring/main.go": "main.go", "go.sum": "go.sum"} {
		text, err := os.ReadFile(filepath.Join(root, from))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, to), text, 0o600))
	}
	for _, args := range [][]string{
		{"go", "mod", "init", "example.org/solver"},
		{"go", "mod", "edit", "-require=ibrun@v0.0.0", "-replace=ibrun=" + root},
		append(build, "-mod=mod", "-o", "solver", "."),
	} {
		c := exec.Command(args[0], args[1:]...)
		c.Dir, c.Env = dir, append(os.Environ(), "GOFLAGS=", "GOWORK=off", "GOPROXY=off")
		out, err := c.CombinedOutput()
		require.NoError(t, err, "%s: %s", strings.Join(args, " "), out)
	}
	return filepath.Join(dir, "solver")
}

// requireSolver requires that the program at the path solver was built with CGO_ENABLED=cgo, and that it succeeds as a
// job of three ranks. The file of the program must contain the text reason, which is noCgo or noHeader, and not the
// other one. If the program must have InfiniBand support, reason is empty and the file must contain neither.
func requireSolver(t *testing.T, solver, cgo, reason string) {
	info, err := buildinfo.ReadFile(solver)
	require.NoError(t, err)
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	require.Equal(t, cgo, settings["CGO_ENABLED"])
	program, err := os.ReadFile(solver)
	require.NoError(t, err)
	for _, why := range []string{noCgo, noHeader} {
		require.Equal(t, why == reason, bytes.Contains(program, []byte(why)), why)
	}
	o := launch.Ibrun(t, "-n", "3", solver)
	require.Equal(t, 0, o.Code, o.Stderr)
	require.Empty(t, o.Stderr)
}

// Messages of package cgo/verbs that give the reason why a program was built without InfiniBand support. Such a program
// contains one of them.
const (
	noCgo    = "no cgo, or tag noib"
	noHeader = "infiniband/verbs.h was not found"
)

// TestModuleWithoutCompiler builds a program of another module while PATH contains only the go command. Because there
// is no C compiler, the go command must disable cgo. The program must run as a job, without InfiniBand support.
func TestModuleWithoutCompiler(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bin")
	require.NoError(t, os.Mkdir(path, 0o700))
	goCommand, err := exec.LookPath("go")
	require.NoError(t, err)
	require.NoError(t, os.Symlink(goCommand, filepath.Join(path, "go")))
	t.Setenv("PATH", path)
	t.Setenv("CC", "")
	t.Setenv("CGO_ENABLED", "")
	requireSolver(t, buildSolver(t, "go", "build"), "0", noCgo)
}
