package topo_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/proc"
	"ibrun/topo"
)

// TestLive reads this machine in both ways: what is quick about one changes nothing.
func TestLive(t *testing.T) {
	slow, quick := topo.Read(os.DirFS("/")), topo.Read(proc.Here())
	require.GreaterOrEqual(t, quick.Load, 0.0)
	slow.Load = quick.Load // the mean of a minute, which may have passed
	require.Equal(t, slow, quick)
	require.False(t, quick.Online.Empty())
}
