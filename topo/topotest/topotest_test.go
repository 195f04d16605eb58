package topotest

import (
	"io/fs"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/cpuset"
)

// read is a file of a tree without the new line at its end.
func read(t testing.TB, tree fs.FS, name string) string {
	text, err := fs.ReadFile(tree, name)
	require.NoError(t, err)
	return strings.TrimSuffix(string(text), "\n")
}

func list(objects []Object) (lists []string) {
	for _, o := range objects {
		lists = append(lists, o.CPUs.String())
	}
	return lists
}

func ids(objects []Object) (ids []int) {
	for _, o := range objects {
		ids = append(ids, o.ID)
	}
	return ids
}

func TestLayout(t *testing.T) {
	for text, want := range map[string]Layout{
		"pack:2 core:2 pu:2": {Cores: of("0-1", "2-3", "4-5", "6-7"), Packages: of("0-3",
			"4-7")},
		"pack:2 core:2 pu:2 order:split": {Cores: of("0,4", "1,5", "2,6", "3,7"),
			Packages: of("0-1,4-5", "2-3,6-7")},
		"pack:2 core:2 pu:2 order:cyclic": {Cores: of("0,4", "2,6", "1,5", "3,7"),
			Packages: of("0,2,4,6", "1,3,5,7")},
		"core:2 pu:2 offline:1-2": {Cores: of("0", "3"), Packages: of("0,3")},
		"core:2 pu:2 offline:2-3": {Cores: of("0-1"), Packages: of("0-1")},
		"core:4 slow:2 pu:2": {Cores: of("0-1", "2-3", "4", "5"), Packages: of("0-5"),
			Slower: cpuset.Span(4, 5)},
		"pack:2 core:2 cpuholes:1-2,5": {Cores: of("0", "3", "4", "6"), Packages: of("0,3", "4,6")},
		"pack:2 core:2 cpuholes:1-2,5 allowed:0-3 mems:0": {Cores: of("0", "3", "4", "6"), Packages: of("0,3", "4,6"),
			Allowed: cpuset.Of(0, 3)},
		"core:4 allowed:1-3 affinity:0-1": {Cores: of("0", "1", "2", "3"), Packages: of("0-3"),
			Allowed: cpuset.Of(1)},
		"core:4 l2:2 l3:none numa:2": {Cores: of("0", "1", "2", "3"), Packages: of("0-3"),
			L2s: of("0-1", "2-3"), Memories: of("0-1", "2-3")},
		"pack:4 numa:1/2 memonly:1 numaholes:1": {Cores: of("0", "1", "2", "3"), Packages: of("0", "1", "2", "3"),
			Memories: of("0-1", "2-3", "")},
		"pack:2 core:4 die:2 l3:4": {Cores: of("0", "1", "2", "3", "4", "5", "6", "7"), Packages: of("0-3", "4-7"),
			Dies: of("0-1", "2-3", "4-5", "6-7")},
	} {
		t.Run(text, func(t *testing.T) {
			l := Must(text).Layout()
			require.Equal(t, list(want.Cores), list(l.Cores))
			require.Equal(t, list(want.Packages), list(l.Packages))
			require.Equal(t, want.Slower.String(), l.Slower.String())
			if want.L2s != nil {
				require.Equal(t, list(want.L2s), list(l.L2s))
				require.Empty(t, l.L3s)
			}
			if want.Memories != nil {
				require.Equal(t, list(want.Memories), list(l.Memories))
			}
			if want.Dies != nil {
				require.Equal(t, list(want.Dies), list(l.Dies))
			}
			if !want.Allowed.Empty() {
				require.Equal(t, want.Allowed.String(), l.Allowed.String())
			}
		})
	}
	l := Must("pack:3 core:3 packholes:1 coreholes:1-7 numaholes:0").Layout()
	require.Equal(t, []int{0, 2, 3}, ids(l.Packages))
	require.Equal(t, []int{0, 8, 9, 0, 8, 9, 0, 8, 9}, ids(l.Cores))
	require.Equal(t, []int{1, 2, 3}, ids(l.Memories))
}

// of makes objects from lists of CPUs.
func of(lists ...string) (objects []Object) {
	for _, text := range lists {
		s, err := cpuset.ParseList(text)
		if err != nil {
			panic(err)
		}
		objects = append(objects, Object{CPUs: s})
	}
	return objects
}

// TestLinks follows each symbolic link of a tree.
func TestLinks(t *testing.T) {
	m := Must("pack:2 core:2 hca:mlx5_0,numa=1,roce=eth0,down hca:mlx5_1,numa=-1,lid=7 link:eth0,hca=mlx5_0,mtu=9000 " +
		"link:ib0,hca=mlx5_1 link:eth1,speed=1000 link:br0,virtual")
	tree := m.Files()
	links := 0
	for name, f := range tree {
		if f.Mode.Type() == fs.ModeSymlink {
			_, err := fs.Stat(tree, name)
			require.NoError(t, err, "%s leads to %s", name, f.Data)
			require.False(t, path.IsAbs(string(f.Data)))
			links++
		}
	}
	require.Greater(t, links, 20)
	require.Equal(t, "RoCE v2", read(t, tree, "sys/class/infiniband/mlx5_0/ports/1/gid_attrs/types/2"))
	require.Equal(t, "eth0", read(t, tree, "sys/class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/2"))
	require.Equal(t, "0000:0000:0000:0000:0000:ffff:0a00:0101",
		read(t, tree, "sys/class/infiniband/mlx5_0/ports/1/gids/2"))
	require.Equal(t, "-1", read(t, tree, "sys/class/infiniband/mlx5_1/device/numa_node"))
	require.Equal(t, "0-3", read(t, tree, "sys/class/infiniband/mlx5_1/device/local_cpulist"))
}

func TestBadDescriptions(t *testing.T) {
	for text, why := range map[string]string{
		"socket:2":                    "no such word",
		"pack:two":                    "invalid syntax",
		"pack:-1":                     "-1 of anything",
		"core:5000":                   "4096 CPUs",
		"numa:2 core:3":               "3 cores cannot be in 2 equal parts",
		"numa:2 l3:3 core:6":          "cross each other",
		"pack:3 numa:1/2":             "3 packages",
		"numa:none memonly:1":         "nodes of memory",
		"core:3 l2:2":                 "cannot share an L2",
		"core:4 l3:2 l2:4":            "of 4 cores in 2 caches, 4 cannot",
		"core:2 slow:2":               "2 of 2 cores",
		"order:random":                "adjacent, split, cyclic",
		"cgroup:3":                    "version 3",
		"old:no":                      "only be yes",
		"cpuholes:4096":               "below 4096",
		"core:2 offline:2":            "the machine has 0-1",
		"core:2 offline:0-1":          "all CPUs are offline",
		"core:2 allowed:7":            "no CPU is online",
		"core:2 allowed:1 affinity:0": "allows nothing",
		"mems:1":                      "the machine has 0",
		"quota:-1":                    "from 0 on",
		"load:NaN":                    "from 0 on",
		"hca:":                        "no name",
		"hca:a hca:a":                 "there are two",
		"hca:a,numa=1":                "NUMA node 1: the machine has 0",
		"hca:a,speed=7":               "an HCA has no speed",
		"hca:a,rate=-1,down":          "rate of -1",
		"hca:a,pci=0000:40:00.0":      "not like pci0000:40",
		"hca:a,pci=pci0000:40":        "not like pci0000:40",
		"hca:a,pci=pci0000:40/up":     "not like pci0000:40",
		"link:a,hca=b":                "b, which the machine has not",
		"link:a,lid=1":                "a link has no lid",
		"link:a,mtu=-1":               "packets of -1",
		"link:lo":                     "no name",
	} {
		_, err := Parse(text)
		require.ErrorContains(t, err, why, text)
		require.Panics(t, func() { Must(text) })
	}
	require.Panics(t, func() { Machine{Packages: -1}.Files() })
	require.ErrorContains(t, Machine{HCAs: []HCA{{Name: "a", Ports: []Port{{State: "UP"}}}}}.Check(), "a is UP")
}

// FuzzParse holds that what Parse takes can be written and laid out, and that
// its text says the same.
func FuzzParse(f *testing.F) {
	f.Add("pack:2 numa:2 l3:2 core:8 pu:2 order:cyclic offline:3,7 allowed:0-15")
	f.Add(Ranger.String())
	f.Fuzz(func(t *testing.T, text string) {
		m, err := Parse(text)
		if err != nil || m.Layout().Present.Len() > 64 || m.MemoryOnly > 64 {
			return
		}
		again, err := Parse(m.String())
		require.NoError(t, err, m.String())
		require.Equal(t, m.String(), again.String())
		require.Equal(t, m.Files(), again.Files())
	})
}
