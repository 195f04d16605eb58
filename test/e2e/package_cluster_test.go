//go:build cluster

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/test/launch"
)

// TestAnotherModule builds a program of another module, whose go.mod requires package ibrun as the README describes.
// The program must run as a job.
func TestAnotherModule(t *testing.T) {
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	dir := t.TempDir()
	// Copy go.sum, because the go command cannot look up checksums on a machine without a network.
	for from, to := range map[string]string{"examples/ring/main.go": "main.go", "go.sum": "go.sum"} {
		text, err := os.ReadFile(filepath.Join(root, from))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, to), text, 0o600))
	}
	for _, args := range [][]string{
		{"mod", "init", "example.org/solver"},
		{"mod", "edit", "-require=ibrun@v0.0.0", "-replace=ibrun=" + root},
		{"build", "-mod=mod", "-o", "solver", "."},
	} {
		c := exec.Command("go", args...)
		c.Dir, c.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
		out, err := c.CombinedOutput()
		require.NoError(t, err, "go %s: %s", strings.Join(args, " "), out)
	}
	o := launch.Ibrun(t, "-n", "3", filepath.Join(dir, "solver"))
	require.Equal(t, 0, o.Code, o.Stderr)
	require.Empty(t, o.Stderr)
}
