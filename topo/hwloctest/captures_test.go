package hwloctest_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/topo/hwloctest"
)

func TestCaptures(t *testing.T) {
	for name, dir := range hwloctest.Captures(t) {
		require.DirExists(t, filepath.Join(dir, "sys", "devices", "system", "cpu"), name)
		require.DirExists(t, filepath.Join(dir, "proc"), name)
	}
}
