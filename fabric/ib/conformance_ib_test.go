//go:build ib

package ib

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/fabric"
	"ibrun/fabric/fabrictest"
)

// The conformance suite, over both link layers. A ring of receives that is full loses, on a good
// network too.
func TestFabric(t *testing.T) {
	for _, port := range []string{"mlx5_0:1", "roce0:1"} {
		t.Run(port, func(t *testing.T) {
			open := func(t *testing.T, sink fabric.Sink) fabric.Fabric {
				f, err := Open(config(port), sink)
				require.NoError(t, err)
				return f
			}
			fabrictest.Run(t, open, fabrictest.Options{Lossy: true, Flood: 20_000})
		})
	}
}

// TestBadNetwork runs the conformance suite again where 30 % of the datagrams are lost, others come
// twice or late, and packets of streams are lost, too.
func TestBadNetwork(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.v", "-test.run", "^TestFabric$/^mlx5_0")
	cmd.Env = append(os.Environ(), faultsVariable+"=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: TestFabric/mlx5_0:1/flood")
}
