package fuzzed

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// broken makes FuzzMade fail for an input that holds three bytes of no seed.
const broken = "IBRUN_FUZZED_BROKEN"

func FuzzMade(f *testing.F) {
	f.Add([]byte("length 1234"), "text", uint8(1), 7, true)
	f.Add([]byte{}, "", uint8(0), 0, false)
	f.Add([]byte{1, 2, 3}, "x y", uint8(200), -1, false)
	Fuzz(f, func(t *testing.T, b []byte, s string, n uint8, i int, yes bool) {
		if os.Getenv(broken) != "" {
			require.False(t, len(b) > 20 && b[20] > 'z' && !yes && len(s) > 4, "found")
		}
	})
}

// What a body refuses is found, kept in Go's format, and fails again as a seed.
func TestFuzz(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	dir := t.TempDir()
	run := func(more ...string) (string, error) {
		c := exec.Command(self, "-test.run", "FuzzMade")
		c.Dir, c.Env = dir, append(os.Environ(), more...)
		out, err := c.CombinedOutput()
		return string(out), err
	}
	out, err := run(Each + "=1000")
	require.NoError(t, err, out)
	require.Contains(t, out, "execs: 3003\n")
	out, err = run(broken + "=1")
	require.NoError(t, err, "no seed fails: %s", out)
	out, err = run(Each+"=100000", broken+"=1")
	require.Error(t, err)
	require.Contains(t, out, "is kept in testdata/fuzz/FuzzMade/")
	kept, err := filepath.Glob(filepath.Join(dir, "testdata/fuzz/FuzzMade/*"))
	require.NoError(t, err)
	require.NotEmpty(t, kept)
	out, err = run(broken + "=1")
	require.Error(t, err)
	require.Contains(t, out, "FuzzMade/"+filepath.Base(kept[0]))
}
