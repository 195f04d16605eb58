package spawn

import (
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/job"
	"ibrun/topo"
	"ibrun/topo/topotest"
)

// Two packages, each with a NUMA node and an HCA of its own; a third HCA is
// down, and a second interface faster.
var twoSided = topotest.Must("pack:2 core:4 hca:mlx5_0,numa=0,lid=1 hca:mlx5_1,numa=1,lid=2 hca:mlx5_2,numa=0,down link:eth0,numa=0,speed=1000 link:eth1,numa=1,speed=25000")

func machine(t *testing.T) *topo.Machine {
	t.Helper()
	m := topo.Read(twoSided.Files())
	require.Empty(t, m.Notes)
	return m
}

func TestPlacesWithDevices(t *testing.T) {
	m := machine(t)
	all, notes, err := places(m, job.Binding{}, job.Node{Ranks: 4}, 0, []string{"eth1"})
	require.NoError(t, err)
	require.Empty(t, notes)
	for i, want := range []struct{ cpus, mems, port string }{
		{"0-1", "0", "mlx5_0:1"}, {"2-3", "0", "mlx5_0:1"}, {"4-5", "1", "mlx5_1:1"}, {"6-7", "1", "mlx5_1:1"},
	} {
		require.Equal(t, want.cpus, all[i].thread.CPUs.String())
		require.Equal(t, want.mems, all[i].thread.Mems.String())
		require.Equal(t, want.port, all[i].port)
		require.Contains(t, all[i].devices, "UCX_NET_DEVICES="+want.port)
		require.Contains(t, all[i].devices, "NCCL_IB_HCA=="+want.port)
		require.Contains(t, all[i].devices, "GLOO_SOCKET_IFNAME=eth1")
	}
}

// A host file's HCA is its node's own, and goes before --hca.
func TestHostsOwnHCA(t *testing.T) {
	m := machine(t)
	all, _, err := places(m, job.Binding{HCA: "mlx5_0"}, job.Node{Ranks: 2, HCA: "mlx5_1:1"}, 0, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"mlx5_1:1", "mlx5_1:1"}, []string{all[0].port, all[1].port})
	for _, hca := range []string{"mlx5_2", "mlx5_9", "mlx5_0:2"} {
		_, _, err := places(m, job.Binding{HCA: hca}, job.Node{Ranks: 2}, 0, nil)
		require.ErrorContains(t, err, hca)
	}
}

// Libraries are told of the interface that the node was reached by, unless a
// faster one is there; and of whichever is near of those that the user named.
func TestInterfaces(t *testing.T) {
	m := machine(t)
	for _, c := range []struct{ given, first, last []string }{
		{[]string{"eth1"}, []string{"eth1"}, []string{"eth1"}},
		{[]string{"eth0"}, nil, nil},
		{[]string{"eth0", "eth1"}, []string{"eth0"}, []string{"eth1"}},
		{nil, nil, nil},
	} {
		all, _, err := places(m, job.Binding{}, job.Node{Ranks: 2}, 0, c.given)
		require.NoError(t, err)
		for i, want := range [][]string{c.first, c.last} {
			at := slices.IndexFunc(all[i].devices, func(e string) bool { return len(e) > 12 && e[:12] == "FI_TCP_IFACE" })
			if want == nil {
				require.Negative(t, at)
			} else {
				require.Equal(t, "FI_TCP_IFACE="+want[0], all[i].devices[at])
			}
		}
	}
}

func TestThreads(t *testing.T) {
	for value, want := range map[string]int{"4": 4, "4,2": 4, " 3 ": 3, "": 0, "x": 0, "-2": 0} {
		require.Equal(t, want, threads(&job.Program{Env: []string{"A=1", "OMP_NUM_THREADS=" + value}}), value)
	}
	require.Zero(t, threads(&job.Program{}))
}

// A rank that has ended before the kernel could be asked is reported all the same.
func TestPlacementOfTheDead(t *testing.T) {
	m := machine(t)
	all, _, err := places(m, job.Binding{}, job.Node{Ranks: 4}, 0, nil)
	require.NoError(t, err)
	const nobody = 1<<22 + 1 // above PID_MAX_LIMIT
	at := placement(m, &rank{slot: 7, place: all[2]}, nobody)
	require.Equal(t, job.Slot(7), at.Rank)
	require.Equal(t, []any{"4-5", "0-1", true}, []any{at.CPUs, at.Mems, at.Ended})
	require.NotEmpty(t, at.Drawing)
	at = placement(m, &rank{}, nobody)
	require.Equal(t, []any{"0-7", true}, []any{at.CPUs, at.Ended}, "not bound")
	require.False(t, placement(m, &rank{}, os.Getpid()).Ended)
}
