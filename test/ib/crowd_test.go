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

// resources returns how many RDMA objects of each kind (such as "qp", queue pairs) the kernel holds, summed over all
// devices.
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

// requireFreed waits until the kernel has freed RDMA objects, so that no count of resources exceeds that in before. The
// test fails after the time limit of package waitfor.
func requireFreed(t *testing.T, before map[string]uint64) {
	t.Helper()
	waitfor.Require(t, "the kernel frees the RDMA objects of the processes", func() bool {
		for name, n := range resources(t) {
			if n > before[name] {
				return false
			}
		}
		return true
	})
}

// TestKilled kills one rank with SIGKILL. ibrun then kills the remaining ranks at once (--kill-grace 0), so that they
// cannot close their devices. The kernel must free all their RDMA objects, and no rank may be left.
func TestKilled(t *testing.T) {
	inside.Require(t)
	before := resources(t)
	var errs bytes.Buffer
	cmd := exec.Command(inside.Program("ibrun"), "--launcher", "local", "--launch-timeout", "2m", "-n", "4", "--hosts",
		"a,b", "--map-by", "node", "--fabric", "ib", "--lazy", "--kill-grace", "0",
		// Ranks send such long messages over streams, each of which has a queue pair.
		inside.Program("ring"), "-rounds", "1000000", "-bytes", "70000")
	cmd.Stderr = &errs
	require.NoError(t, cmd.Start())
	waitfor.Require(t, "queue pairs of all ranks", func() bool { return resources(t)["qp"] >= before["qp"]+4*2 })
	ranks := processesOf(t, "ring")
	require.NotEmpty(t, ranks)
	require.NoError(t, syscall.Kill(ranks[0], syscall.SIGKILL))
	require.Error(t, cmd.Wait())
	require.Contains(t, errs.String(), "ibrun: ")
	requireFreed(t, before)
	require.Empty(t, slices.DeleteFunc(processesOf(t, "ring"), func(pid int) bool { return syscall.Kill(pid, 0) != nil }))
}
