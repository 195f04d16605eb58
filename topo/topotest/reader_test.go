package topotest_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/topo"
	"ibrun/topo/hwloctest"
	"ibrun/topo/topotest"
)

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

// show lists objects in an order that does not depend on the tree: a line with
// the number, if it counts, and the CPUs of each.
func show(objects []topotest.Object, numbered bool) string {
	var lines []string
	for _, o := range objects {
		line := o.CPUs.String()
		if numbered {
			line = fmt.Sprintf("%d: %s", o.ID, line)
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// dies are those that hwloc lists: with several CPUs, but fewer than their
// package.
func dies(m topotest.Machine, l topotest.Layout) []topotest.Object {
	if m.Old {
		return nil
	}
	return slices.DeleteFunc(l.Dies, func(die topotest.Object) bool {
		whole := func(p topotest.Object) bool { return p.CPUs.Equal(die.CPUs) }
		return die.CPUs.Len() == 1 || slices.ContainsFunc(l.Packages, whole)
	})
}

// compareHwloc holds a reading against hwloc, if the tests have the build tag cluster.
var compareHwloc = func(*testing.T, topotest.Machine, *topo.Machine) {}

// stride is greater than 1 if only some of the machines are read.
var stride = uint64(1)

// machine is one of those that the tests read, always the same for a seed.
func machine(seed uint64) topotest.Machine { return topotest.Draw(rand.New(rand.NewPCG(4, seed)), 48) }

// TestHundredMachines draws a hundred machines over all that a description can say, and lets package
// topo read them.
func TestHundredMachines(t *testing.T) {
	var all strings.Builder
	for seed := range uint64(100) {
		m := machine(seed)
		all.WriteString(m.String() + "\n")
		if seed%stride != 0 {
			continue
		}
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			t.Log(m)
			again, err := topotest.Parse(m.String())
			require.NoError(t, err)
			require.Equal(t, m, again, "text form")
			got := topo.Read(m.Files())
			hwloctest.Valid(t, got)
			compareReading(t, m, got)
			compareHwloc(t, m, got)
		})
	}
	for _, word := range []string{"die:", "numa:2", "numa:4", "numa:1/2", "numa:none", "l3:", "l3:none", "l2:", "slow:",
		"pu:", "memonly:", "order:split", "order:cyclic",
		"cpuholes:", "coreholes:", "packholes:", "numaholes:", "offline:", "allowed:", "mems:", "affinity:", "quota:",
		"cgroup:1", "old:yes",
		"numa=-1", "pci=", ",lid=", ",roce=", ",down", ",virtual"} {
		require.GreaterOrEqual(t, strings.Count(all.String(), word), 5, "machines with %s", word)
	}
}
