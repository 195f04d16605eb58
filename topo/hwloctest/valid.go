package hwloctest

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/cpuset"
	"ibrun/topo"
)

// Valid fails a test unless a machine is as topo.Machine promises, whatever it
// was read from. It needs no hwloc.
func Valid(t testing.TB, m *topo.Machine) {
	t.Helper()
	require.NotEmpty(t, m.Cores)
	require.NotEmpty(t, m.Packages)
	require.NotEmpty(t, m.Memories)
	var nodes []topo.Object
	var mems cpuset.Set
	for i := range m.Memories {
		n := &m.Memories[i]
		require.False(t, mems.Has(n.ID), "NUMA node %d is there twice", n.ID)
		require.Greater(t, n.ID, mems.Last(), "NUMA nodes are in order")
		mems.Add(n.ID)
		require.Contains(t, []int{0, len(m.Memories)}, len(n.Distance))
		nodes = append(nodes, n.Object)
	}
	for what, objects := range map[string][]topo.Object{"core": m.Cores, "package": m.Packages, "NUMA node": nodes} {
		require.Equal(t, m.Online.String(), disjoint(t, what, objects).String(), "each online CPU is in one %s", what)
	}
	require.True(t, disjoint(t, "cache", m.L3s).In(m.Online))

	nested(t, m, nodes)
	inOrder(t, m, "package", m.Packages)
	inOrder(t, m, "cache", m.L3s)
	for _, n := range nodes {
		inOrder(t, m, "NUMA node", []topo.Object{n})
	}

	require.False(t, m.Allowed.Empty())
	require.True(t, m.Allowed.In(m.Online))
	require.True(t, m.Slower.In(m.Online))
	require.False(t, m.Online.Equal(m.Slower), "some are not slower")
	require.False(t, m.AllowedMems.Empty())
	require.True(t, m.AllowedMems.In(mems))
	require.True(t, m.Quota >= 0)
	require.True(t, m.Load >= 0 || m.Load == -1)
}

// disjoint is what objects hold, none of them twice. Only memory may hold nothing.
func disjoint(t testing.TB, what string, objects []topo.Object) cpuset.Set {
	t.Helper()
	var all cpuset.Set
	for _, o := range objects {
		require.False(t, o.CPUs.Meets(all), "%s %d shares CPUs %s", what, o.ID, o.CPUs.And(all))
		require.True(t, what == "NUMA node" || !o.CPUs.Empty(), "%s %d is empty", what, o.ID)
		require.GreaterOrEqual(t, o.ID, -1)
		all = all.Or(o.CPUs)
	}
	return all
}

// nested sees that of two objects one holds the other, or they share nothing.
// Those of one kind are known to share nothing.
func nested(t testing.TB, m *topo.Machine, nodes []topo.Object) {
	t.Helper()
	kinds := [][]topo.Object{nodes, m.Packages, m.L3s, m.Cores}
	for i, larger := range kinds {
		for _, a := range larger {
			for _, b := range slices.Concat(kinds[i+1:]...) {
				require.True(t, !a.CPUs.Meets(b.CPUs) || a.CPUs.In(b.CPUs) || b.CPUs.In(a.CPUs), "%s crosses %s",
					a.CPUs, b.CPUs)
			}
		}
	}
	for _, c := range m.L3s {
		require.True(t, slices.ContainsFunc(m.Packages, func(p topo.Object) bool { return c.CPUs.In(p.CPUs) }),
			"cache %s is in no package", c.CPUs)
	}
}

// inOrder sees that the cores of each of some objects are neighbours, and that
// the objects come in the order of their cores.
func inOrder(t testing.TB, m *topo.Machine, what string, objects []topo.Object) {
	t.Helper()
	at := 0
	for _, o := range objects {
		inside := func(c topo.Object) bool { return c.CPUs.Meets(o.CPUs) }
		start := slices.IndexFunc(m.Cores, inside)
		if start < 0 {
			continue
		}
		require.GreaterOrEqual(t, start, at, "%s %s comes too late", what, o.CPUs)
		at = start
		for at < len(m.Cores) && inside(m.Cores[at]) {
			at++
		}
		require.False(t, slices.ContainsFunc(m.Cores[at:], inside), "the cores of %s %s are not neighbours", what,
			o.CPUs)
	}
}
