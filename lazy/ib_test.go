//go:build cgo && !noib

package lazy

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/cgo/verbs"
	"ibrun/fabric"
	"ibrun/fabric/ib"
	"ibrun/test/fakeverbs"
	"ibrun/test/rdmavm/inside"
)

// fakeLibrary puts a made-up device into the environment, once for the process.
var fakeLibrary = sync.OnceValue(func() error {
	dir, err := os.MkdirTemp("", "fakeverbs")
	if err != nil {
		return err
	}
	n, err := fakeverbs.New(dir)
	if err != nil {
		return err
	}
	port := fakeverbs.Port{LID: 3, SMLID: 1, GIDs: []verbs.GID{{Type: verbs.GIDIB, Addr: [16]byte{0: 0xfe, 1: 0x80, 15: 1}}}}
	node := fakeverbs.Node{Devices: []fakeverbs.Device{{Name: "mlx5_0", GUID: 1, Ports: []fakeverbs.Port{port}}}}
	if os.Getenv(stormVariable) != "" {
		node.Faults = fakeverbs.Faults{Seed: *oneStorm + 1, Lose: 30, Double: 10, Swap: 10}
		node.QPN = 100 // the lowest free number, so that the next incarnation has the queue pair of the one before
	}
	for _, v := range n.Env(node) {
		name, value, _ := strings.Cut(v, "=")
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	removeLater = append(removeLater, dir)
	return nil
})

func overIB(s fabric.Sink) (fabric.Fabric, error) {
	if !inside.In() {
		if err := fakeLibrary(); err != nil {
			return nil, err
		}
	}
	return ib.Open(ib.Config{GIDIndex: -1, QKey: 7}, s)
}

func init() { more["ib"] = overIB }

// stormVariable gives this process a bad network.
const stormVariable = "IBRUN_TEST_STORM"

// TestStormsOverInfiniBand runs the schedules in a process where 30 % of the datagrams are lost, those that make streams
// included, and others come twice or late. In a machine with Soft-RoCE the network is what it is.
func TestStormsOverInfiniBand(t *testing.T) {
	if inside.In() || os.Getenv(stormVariable) != "" {
		const together = 15 // they mostly wait
		at := weather(t, *storms, together, func(t *testing.T, seed uint64) *storm {
			s := draw(t, seed, overIB)
			s.run()
			return s
		})
		require.True(t, at > 0 || inside.In() || *oneStorm > 0)
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run", "^TestStormsOverInfiniBand$", "-test.v", "-test.parallel=15", fmt.Sprintf("-storms=%d", *storms), fmt.Sprintf("-seed=%d", *oneStorm))
	cmd.Env = append(os.Environ(), stormVariable+"=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: TestStormsOverInfiniBand")
	t.Logf("%s", out)
}
