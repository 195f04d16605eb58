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

// resources returns the kernel's counts of queue pairs, memory regions and so on, for all devices together.
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

// idle waits until the counts of resources are not larger than before.
func idle(t *testing.T, before map[string]uint64) {
	t.Helper()
	waitfor.Require(t, "resources of the processes are freed", func() bool {
		for name, n := range resources(t) {
			if n > before[name] {
				return false
			}
		}
		return true
	})
}

// TestKilled kills a rank, which ends the job before any rank closes its device. The kernel must free all queue
// pairs, and no rank may be left.
func TestKilled(t *testing.T) {
	inside.Require(t)
	before := resources(t)
	var errs bytes.Buffer
	cmd := exec.Command(inside.Program("ibrun"), "--launcher", "local", "--launch-timeout", "2m", "-n", "4", "--hosts",
		"a,b", "--map-by", "node", "--fabric", "ib", "--lazy", "--kill-grace", "0",
		inside.Program("ring"), "-rounds", "1000000", "-bytes", "70000") // so much data that each pair gets a stream
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
