package topo_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/topo"
	"ibrun/topo/hwloctest"
)

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
