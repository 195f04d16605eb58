package topo_test

import (
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"ibrun/topo"
	"ibrun/topo/topotest"
)

// counted counts the files that are opened.
type counted struct {
	fstest.MapFS
	opened int
}

func (c *counted) Open(name string) (fs.File, error) {
	c.opened++
	return c.MapFS.Open(name)
}

// What binds ranks is the same by half of the files: nothing is read of a virtual interface, nor of
// any where a node is alone.
func TestReadPlaces(t *testing.T) {
	m := topotest.Must("pack:2 numa:2 l3:2 core:2 pu:2 allowed:0-5 link:eth0,numa=0,speed=25000 " +
		"link:br0,virtual link:br1,virtual link:br2,virtual link:br3,virtual")
	read := func(how func(fs.FS) *topo.Machine) (*topo.Machine, int) {
		c := &counted{MapFS: m.Files()}
		return how(c), c.opened
	}
	whole, all := read(topo.Read)
	brief, some := read(func(f fs.FS) *topo.Machine { return topo.ReadPlaces(f, false) })
	alone, few := read(func(f fs.FS) *topo.Machine { return topo.ReadPlaces(f, true) })
	require.Less(t, some, all*2/3)
	require.Less(t, few, some)
	require.Empty(t, alone.Links)
	require.Len(t, brief.Links, len(whole.Links))
	for i, l := range whole.Links {
		require.Equal(t, l.Name, brief.Links[i].Name)
		require.Equal(t, l.Virtual, brief.Links[i].Virtual)
		if !l.Virtual {
			require.Equal(t, l, brief.Links[i])
		}
	}
	for _, m := range []*topo.Machine{whole, brief, alone} {
		m.Links, m.Load, m.Quota, m.MemoryLimit, m.Notes = nil, 0, 0, 0, nil
	}
	require.Equal(t, whole, brief)
	require.Equal(t, whole, alone)
}
