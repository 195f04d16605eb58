//go:build cluster

package remote

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/reaper"
	"ibrun/internal/job"
	"ibrun/test/executable"
	"ibrun/test/skip"
)

// BenchmarkFind is what the script costs a node before the reaper begins, shell
// included, where ibrun lies as at the parent's. It is part of every launch.
func BenchmarkFind(b *testing.B) {
	dir, err := os.MkdirTemp("/var/lib", "ibrun-test")
	if err != nil {
		skip.Because(b, "needs root: a place that others may not write to: "+err.Error())
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "ibrun")
	text, err := os.ReadFile("/bin/true")
	require.NoError(b, err)
	require.NoError(b, executable.Write(path, text))
	for _, shell := range shells {
		b.Run(filepath.Base(shell), func(b *testing.B) {
			for b.Loop() {
				text := command(job.LaunchOptions{}, path, reaper.Role)
				out, err := exec.Command(shell, "-c", strings.Replace(text, "/bin/sh", shell,
					1)).CombinedOutput()
				require.NoError(b, err)
				require.Empty(b, string(out))
			}
		})
	}
}
