//go:build ib

package ib

import (
	"bytes"
	"os/exec"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"ibrun/test/rdmavm/inside"
	"ibrun/test/waitfor"
)

// resources returns how many objects of each kind (such as "qp" for queue pairs) the kernel has on all devices.
func resources(t *testing.T) map[string]uint64 {
	t.Helper()
	list, err := netlink.RdmaResourceList()
	require.NoError(t, err)
	sum := map[string]uint64{}
	for _, r := range list {
		for name, n := range r.RdmaResourceSummaryEntries {
			sum[name] += n
		}
	}
	require.Contains(t, sum, "qp")
	return sum
}

// idle waits until each count of resources is at most its value in before.
func idle(t *testing.T, before map[string]uint64) {
	t.Helper()
	waitfor.Require(t, "the kernel frees the resources of the processes", func() bool {
		for name, n := range resources(t) {
			if n > before[name] {
				return false
			}
		}
		return true
	})
}

// TestKilled kills a rank with SIGKILL. Then ibrun kills the other ranks before they can close their devices. The
// kernel must free all queue pairs, and no rank may be left.
func TestKilled(t *testing.T) {
	inside.Require(t)
	before := resources(t)
	var errs bytes.Buffer
	cmd := exec.Command(inside.Program("ibrun"), "--launcher", "local", "--launch-timeout", "2m", "-n", "4", "--hosts",
		"a,b", "--map-by", "node", "--fabric", "ib", "--lazy", "--kill-grace", "0",
		// The messages are so long that each pair of ranks opens a stream.
		inside.Program("ring"), "-rounds", "1000000", "-bytes", "70000")
	cmd.Stderr = &errs
	require.NoError(t, cmd.Start())
	waitfor.Require(t, "queue pairs of all ranks", func() bool { return resources(t)["qp"] >= before["qp"]+4*2 })
	ranks := children(t, "ring")
	require.NotEmpty(t, ranks)
	require.NoError(t, syscall.Kill(ranks[0], syscall.SIGKILL))
	require.Error(t, cmd.Wait())
	require.Contains(t, errs.String(), "ibrun: ")
	idle(t, before)
	require.Empty(t, slices.DeleteFunc(children(t, "ring"), func(pid int) bool { return syscall.Kill(pid, 0) != nil }))
}
