//go:build cluster

package topo_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/topo"
	"ibrun/topo/hwloctest"
)

func init() { compare = hwloctest.Compare }

// TestHwloc runs the tests of machines that hwloc reads, too, with the comparison.
func TestHwloc(t *testing.T) {
	t.Run("Read", TestRead)
	t.Run("Hybrid", TestHybrid)
	t.Run("Large", TestLarge)
}

// TestCaptures holds what is read of real machines against hwloc. None of them
// contradicts itself, so that there is nothing to note but of devices.
func TestCaptures(t *testing.T) {
	for name, dir := range hwloctest.Captures(t) {
		t.Run(name, func(t *testing.T) {
			m := topo.Read(os.DirFS(dir))
			hwloctest.Compare(t, m, dir)
			for _, note := range m.Notes {
				require.True(t, strings.HasPrefix(note, "sys/class/"), note)
			}
		})
	}
}
