package hwloctest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/test/skip"
	"ibrun/topo/hwloctest"
)

func TestCaptures(t *testing.T) {
	for name, dir := range hwloctest.Captures(t) {
		require.DirExists(t, filepath.Join(dir, "sys", "devices", "system", "cpu"), name)
		require.DirExists(t, filepath.Join(dir, "proc"), name)
	}
}

// TestRealMachines says whether the tests of captures had any of real machines.
func TestRealMachines(t *testing.T) {
	if os.Getenv(hwloctest.Variable) == "" {
		skip.Because(t, "captures of real machines: "+hwloctest.Variable+" names no folder with some (NAME.tar.bz2)")
	}
	real := 0
	for name := range hwloctest.Machines(t) {
		if !strings.HasPrefix(name, "made-") {
			real++
		}
	}
	require.Positive(t, real)
}
