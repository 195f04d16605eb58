package topotest_test

import (
	"cmp"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/topo"
	"ibrun/topo/hwloctest"
	"ibrun/topo/topotest"
)

// read lets topo.Read read a machine, and holds what it finds against hwloc's
// reading and against what only the description knows.
func read(t testing.TB, m topotest.Machine, dir string) {
	got := topo.Read(os.DirFS(dir))
	hwloctest.Valid(t, got)
	hwloctest.Compare(t, got, dir)
	hwloctest.CompareDevices(t, got, dir)
	require.Equal(t, got, topo.Read(m.Files()), "in memory")
	compareReading(t, m, got)
}

// compareReading holds a reading against what hwloc does not look at, or does
// not tell.
func compareReading(t testing.TB, m topotest.Machine, got *topo.Machine) {
	l := m.Layout()
	require.Equal(t, l.Online.String(), got.Online.String())
	if len(l.Memories) > 0 {
		var nodes []topotest.Object
		for _, n := range got.Memories {
			nodes = append(nodes, topotest.Object(n.Object))
		}
		require.Equal(t, show(l.Memories, true), show(nodes, true))
	}
	var found []topotest.Object
	for _, d := range got.Dies {
		found = append(found, topotest.Object(d))
	}
	require.Equal(t, show(dies(m, l), true), show(found, true))
	require.Equal(t, l.Allowed.String(), got.Allowed.String(), "cgroup and affinity")
	require.Equal(t, l.Mems.String(), got.AllowedMems.String())
	require.Equal(t, l.Slower.String(), got.Slower.String())
	require.Equal(t, m.Quota, got.Quota)
	require.Equal(t, m.Load, got.Load)
	require.Empty(t, got.Notes)
	require.Len(t, got.HCAs, len(m.HCAs))
	require.Len(t, got.Links, 1+len(m.Links))
	for i, h := range m.HCAs {
		require.Equal(t, h.Name, got.HCAs[i].Name)
		if len(l.Memories) > 0 {
			require.Equal(t, h.NUMA, got.HCAs[i].NUMA)
		}
		comparePorts(t, h.Ports, got.HCAs[i].Ports)
	}
	for _, link := range m.Links {
		i := slices.IndexFunc(got.Links, func(g topo.Link) bool { return g.Name == link.Name })
		require.GreaterOrEqual(t, i, 0, link.Name)
		g := got.Links[i]
		if link.Down {
			link.Speed = 0
		}
		require.Equal(t, []any{!link.Down, false, link.Virtual, cmp.Or(link.MTU, 1500), link.Speed},
			[]any{g.Up, g.Loopback, g.Virtual, g.MTU, g.Speed}, link.Name)
	}
}

func comparePorts(t testing.TB, ports []topotest.Port, got []topo.Port) {
	require.Len(t, got, len(ports))
	for i, p := range ports {
		g := got[i]
		require.Equal(t, i+1, g.Number)
		require.Equal(t, p.LID, g.LID)
		require.Equal(t, p.SMLID, g.SMLID)
		require.Equal(t, p.State == "", g.Active())
		require.Equal(t, p.Layer == "Ethernet", g.Layer == "Ethernet")
		require.Equal(t, cmp.Or(p.Rate, 100), g.Rate)
		require.Equal(t, []uint16{0xffff}, g.PKeys)
		for _, gid := range g.GIDs {
			require.Equal(t, p.Link, gid.Link)
		}
	}
}
