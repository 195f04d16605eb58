package topo

import (
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"ibrun/internal/cpuset"
)

// tree makes a file system of lines "path: text" and "path -> target". Links
// that lead through other links are left out: MapFS would follow a circle of
// them for ever.
func tree(lines string) fstest.MapFS {
	fsys, links := fstest.MapFS{}, map[string]string{}
	for line := range strings.Lines(lines) {
		line = strings.TrimSpace(line)
		if name, to, ok := strings.Cut(line, " -> "); ok && fs.ValidPath(name) && !path.IsAbs(to) {
			links[name] = to
		} else if name, text, ok := strings.Cut(line, ": "); ok && fs.ValidPath(name) && name != "." {
			fsys[name] = &fstest.MapFile{Data: []byte(text + "\n")}
		}
	}
	for name, to := range links {
		at := path.Join(path.Dir(name), to) + "/"
		crossesLink := func(link string) bool { return strings.HasPrefix(at, link+"/") }
		if !slices.ContainsFunc(slices.Collect(maps.Keys(links)), crossesLink) {
			fsys[name] = &fstest.MapFile{Mode: fs.ModeSymlink, Data: []byte(to)}
		}
	}
	return fsys
}

const dual = `
sys/class/infiniband/mlx5_10 -> ../../devices/pci0000:40/0000:40:03.0/0000:41:00.0/infiniband/mlx5_10
sys/class/infiniband/mlx5_2 -> ../../devices/pci0000:00/0000:00:0e.0/pci10000:e0/10000:e0:06.0/infiniband/mlx5_2
sys/devices/pci0000:40/0000:40:03.0/0000:41:00.0/numa_node: 1
sys/devices/pci0000:40/0000:40:03.0/0000:41:00.0/local_cpulist: 8-15
sys/devices/pci0000:40/0000:40:03.0/0000:41:00.0/infiniband/mlx5_10/device -> ../../../0000:41:00.0
sys/devices/pci0000:40/0000:40:03.0/0000:41:00.0/infiniband/mlx5_10/node_type: 1: CA
sys/devices/pci0000:40/0000:40:03.0/0000:41:00.0/infiniband/mlx5_10/node_guid: 0002:c903:00f9:bfa0
sys/devices/pci0000:40/0000:40:03.0/0000:41:00.0/infiniband/mlx5_10/ports/10/state: 1: DOWN
sys/devices/pci0000:40/0000:40:03.0/0000:41:00.0/infiniband/mlx5_10/ports/2/state: 2: INIT
sys/devices/pci0000:40/0000:40:03.0/0000:41:00.0/infiniband/mlx5_10/ports/1/state: 4: ACTIVE
sys/devices/pci0000:40/0000:40:03.0/0000:41:00.0/infiniband/mlx5_10/ports/1/phys_state: 5: LinkUp
sys/devices/pci0000:40/0000:40:03.0/0000:41:00.0/infiniband/mlx5_10/ports/1/link_layer: InfiniBand
sys/devices/pci0000:40/0000:40:03.0/0000:41:00.0/infiniband/mlx5_10/ports/1/lid: 0x3a4
sys/devices/pci0000:40/0000:40:03.0/0000:41:00.0/infiniband/mlx5_10/ports/1/sm_lid: 0x1
sys/devices/pci0000:40/0000:40:03.0/0000:41:00.0/infiniband/mlx5_10/ports/1/lid_mask_count: 3
sys/devices/pci0000:40/0000:40:03.0/0000:41:00.0/infiniband/mlx5_10/ports/1/rate: 56 Gb/sec (4X FDR)
sys/devices/pci0000:40/0000:40:03.0/0000:41:00.0/infiniband/mlx5_10/ports/1/gids/0: fe80:0000:0000:0000:0002:c903:00f9:bfa1
sys/devices/pci0000:40/0000:40:03.0/0000:41:00.0/infiniband/mlx5_10/ports/1/gids/1: fe80:0000:0000:0000:0000:0000:0000:0000
sys/devices/pci0000:40/0000:40:03.0/0000:41:00.0/infiniband/mlx5_10/ports/1/gids/2: 0000:0000:0000:0000:0000:0000:0000:0000
sys/devices/pci0000:40/0000:40:03.0/0000:41:00.0/infiniband/mlx5_10/ports/1/gids/10: 0000:0000:0000:0000:0000:ffff:0a01:0203
sys/devices/pci0000:40/0000:40:03.0/0000:41:00.0/infiniband/mlx5_10/ports/1/gid_attrs/types/0: IB/RoCE v1
sys/devices/pci0000:40/0000:40:03.0/0000:41:00.0/infiniband/mlx5_10/ports/1/gid_attrs/types/10: RoCE v2
sys/devices/pci0000:40/0000:40:03.0/0000:41:00.0/infiniband/mlx5_10/ports/1/gid_attrs/ndevs/10: eth2
sys/devices/pci0000:40/0000:40:03.0/0000:41:00.0/infiniband/mlx5_10/ports/1/pkeys/0: 0xffff
sys/devices/pci0000:40/0000:40:03.0/0000:41:00.0/infiniband/mlx5_10/ports/1/pkeys/1: 0x0000
sys/devices/pci0000:40/0000:40:03.0/0000:41:00.0/infiniband/mlx5_10/ports/1/pkeys/2: 0x8000
sys/devices/pci0000:40/0000:40:03.0/0000:41:00.0/infiniband/mlx5_10/ports/1/pkeys/10: 0x0012
sys/devices/pci0000:00/0000:00:0e.0/pci10000:e0/10000:e0:06.0/numa_node: -1
sys/devices/pci0000:00/0000:00:0e.0/pci10000:e0/10000:e0:06.0/local_cpus: 00000001,0000000f
sys/devices/pci0000:00/0000:00:0e.0/pci10000:e0/10000:e0:06.0/infiniband/mlx5_2/device -> ../../../10000:e0:06.0
sys/devices/pci0000:00/0000:00:0e.0/pci10000:e0/10000:e0:06.0/infiniband/mlx5_2/node_type: 4: RNIC
sys/devices/pci0000:00/0000:00:0e.0/pci10000:e0/10000:e0:06.0/infiniband/mlx5_2/ports/1/state: 3: ARMED
`

func TestHCAs(t *testing.T) {
	r := &reader{fsys: tree(dual)}
	hcas := r.hcas()
	require.Empty(t, r.notes)
	ib := [16]byte{0xfe, 0x80, 8: 0, 9: 2, 10: 0xc9, 11: 3, 12: 0, 13: 0xf9, 14: 0xbf, 15: 0xa1}
	roce := [16]byte{10: 0xff, 11: 0xff, 12: 10, 13: 1, 14: 2, 15: 3}
	require.Equal(t, []HCA{{
		Name:  "mlx5_2",
		IWARP: true,
		Place: Place{NUMA: -1, CPUs: cpuset.Of(0, 1, 2, 3, 32), PCI: []string{"pci0000:00", "0000:00:0e.0",
			"pci10000:e0", "10000:e0:06.0"}},
		Ports: []Port{{Number: 1, State: "ARMED"}},
	}, {
		Name:  "mlx5_10",
		GUID:  [8]byte{0, 2, 0xc9, 3, 0, 0xf9, 0xbf, 0xa0},
		Place: Place{NUMA: 1, CPUs: cpuset.Span(8, 15), PCI: []string{"pci0000:40", "0000:40:03.0", "0000:41:00.0"}},
		Ports: []Port{
			{
				Number: 1, State: "ACTIVE", Physical: "LinkUp", Layer: "InfiniBand", LID: 0x3a4, SMLID: 1, LMC: 3,
				Rate: 56,
				GIDs: []GID{{0, ib, "IB/RoCE v1", ""}, {10, roce, "RoCE v2", "eth2"}}, PKeys: []uint16{0xffff, 0x12},
			},
			{Number: 2, State: "INIT"},
			{Number: 10, State: "DOWN"},
		},
	}}, hcas)
	require.True(t, hcas[1].Ports[0].Active())
	require.False(t, hcas[1].Ports[1].Active())
}

func TestTables(t *testing.T) {
	var lines strings.Builder
	for i := range 128 {
		fmt.Fprintf(&lines, "sys/class/infiniband/mlx5_0/ports/1/pkeys/%d: 0x0000\n", i)
	}
	fsys := tree(lines.String())
	for i, key := range map[int]string{0: "0xffff", 32: "0x8001", 64: "0x2", 97: "0x3"} {
		fsys[fmt.Sprint("sys/class/infiniband/mlx5_0/ports/1/pkeys/", i)].Data = []byte(key)
	}
	r := &reader{fsys: fsys}
	require.Equal(t, []uint16{0xffff, 0x8001, 2}, r.hcas()[0].Ports[0].PKeys,
		"holes of 31 entries are passed, one of 32 is the end")
}

// What copies of sysfs look like that kept no links, or that followed them.
func TestHCAInFolders(t *testing.T) {
	for name, lines := range map[string]string{
		"link to the device": `
			sys/class/infiniband/mlx4_0/device -> ../../../devices/pci0000:80/0000:82:00.0`,
		"its event": `
			sys/class/infiniband/mlx4_0/device/numa_node: 3
			sys/class/infiniband/mlx4_0/device/local_cpulist: 4-7
			sys/class/infiniband/mlx4_0/device/uevent: PCI_SLOT_NAME=0000:82:00.0`,
	} {
		r := &reader{fsys: tree(lines + `
			sys/class/infiniband/mlx4_0/ports/1/state: 4: ACTIVE
			sys/bus/pci/devices/0000:82:00.0 -> ../../../devices/pci0000:80/0000:82:00.0
			sys/devices/pci0000:80/0000:82:00.0/numa_node: 3
			sys/devices/pci0000:80/0000:82:00.0/local_cpulist: 4-7`)}
		hcas := r.hcas()
		require.Len(t, hcas, 1, name)
		require.Equal(t, Place{3, cpuset.Span(4, 7), []string{"pci0000:80", "0000:82:00.0"}}, hcas[0].Place, name)
		require.Empty(t, r.notes, name)
	}
}

func TestSoftwareHCA(t *testing.T) {
	r := &reader{fsys: tree(`
		sys/class/infiniband/rxe0 -> ../../devices/virtual/infiniband/rxe0
		sys/devices/virtual/infiniband/rxe0/ports/1/state: 4: ACTIVE
		sys/devices/virtual/infiniband/rxe0/ports/1/link_layer: Ethernet
		sys/devices/virtual/infiniband/rxe0/ports/1/rate: 2.5 Gb/sec (1X SDR)
		sys/class/infiniband/scif0 -> ../../devices/scif_dma_0/infiniband/scif0`)}
	require.Equal(t, []HCA{{Name: "rxe0", Place: Place{NUMA: -1}, Ports: []Port{{Number: 1, State: "ACTIVE",
		Layer: "Ethernet", Rate: 2.5}}}}, r.hcas())
	require.Equal(t, []string{"sys/class/infiniband/scif0 has no ports: left out"}, r.notes)
}

func TestOddHCAs(t *testing.T) {
	for file, note := range map[string]string{
		"ports/1/lid: 0x1ffffffff":              "no number of 32 bits",
		"ports/1/lid: 3a4":                      "no number of 32 bits",
		"ports/1/lid_mask_count: -1":            "no number of 8 bits",
		"ports/1/rate: NaN Gb/sec":              "no rate",
		"ports/1/rate: 56":                      "no rate",
		"ports/1/rate: -1 Gb/sec":               "no rate",
		"ports/1/rate: 1000000 Gb/sec":          "no rate",
		"ports/1/gids/0: fe80::1":               "no GID",
		"ports/1/gids/x: y":                     "which is no number",
		"ports/one/state: 4: ACTIVE":            "which is no number",
		"ports/01/state: 4: ACTIVE":             "which is no number",
		"ports/-1/state: 4: ACTIVE":             "which is no number",
		"ports/1/state: 4: \x1b[31mACTIVE":      "which is no word",
		"ports/1/pkeys/0: 0x10000":              "no number of 16 bits",
		"device/numa_node: -2":                  "no node",
		"device/numa_node: 65536":               "no node",
		"device/numa_node: many":                "is no number",
		"device/local_cpus: pale blue":          "not a mask",
		"device/local_cpulist: 1-":              "not a list",
		"../a b/ports/1/state: 4: ACTIVE":       "no name for a device",
		"../a,b/ports/1/state: 4: ACTIVE":       "no name for a device",
		"../\x1b[2J/ports/1/state: 4: ACTIVE":   "no name for a device",
		"../" + strings.Repeat("x", 65) + ": y": "no name for a device",
	} {
		name, text, _ := strings.Cut(file, ": ")
		r := &reader{fsys: tree("sys/class/infiniband/mlx4_0/ports/1/state: 4: ACTIVE\n" +
			path.Join("sys/class/infiniband/mlx4_0", name) + ": " + text)}
		hcas := r.hcas()
		require.Len(t, hcas, 1, file)
		require.Len(t, hcas[0].Ports, 1, file)
		hcas[0].Ports[0].State = ""
		require.Equal(t, HCA{Name: "mlx4_0", Place: Place{NUMA: -1}, Ports: []Port{{Number: 1}}}, hcas[0], file)
		require.Len(t, r.notes, 1, file)
		require.Contains(t, r.notes[0], note)
	}
}

func TestNatural(t *testing.T) {
	sorted := []string{"", "1", "a", "eth", "eth0", "eth00", "eth0.9", "eth0.10", "eth1", "eth10", "mlx5_2", "mlx5_10",
		"mlx5_10a"}
	for range 20 {
		names := slices.Clone(sorted)
		rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		slices.SortFunc(names, natural)
		require.Equal(t, sorted, names)
	}
}

func TestLinks(t *testing.T) {
	r := &reader{fsys: tree(`
		sys/class/net/bonding_masters: bond0
		sys/class/net/lo -> ../../devices/virtual/net/lo
		sys/devices/virtual/net/lo/operstate: unknown
		sys/devices/virtual/net/lo/carrier: 1
		sys/devices/virtual/net/lo/flags: 0x9
		sys/devices/virtual/net/lo/mtu: 65536
		sys/devices/virtual/net/lo/type: 772
		sys/class/net/eth10 -> ../../devices/pci0000:00/0000:00:01.1/0000:02:00.0/net/eth10
		sys/devices/pci0000:00/0000:00:01.1/0000:02:00.0/numa_node: 0
		sys/devices/pci0000:00/0000:00:01.1/0000:02:00.0/local_cpulist: 0-3
		sys/devices/pci0000:00/0000:00:01.1/0000:02:00.0/net/eth10/device -> ../../../0000:02:00.0
		sys/devices/pci0000:00/0000:00:01.1/0000:02:00.0/net/eth10/operstate: up
		sys/devices/pci0000:00/0000:00:01.1/0000:02:00.0/net/eth10/flags: 0x1103
		sys/devices/pci0000:00/0000:00:01.1/0000:02:00.0/net/eth10/mtu: 9000
		sys/devices/pci0000:00/0000:00:01.1/0000:02:00.0/net/eth10/speed: 200000
		sys/devices/pci0000:00/0000:00:01.1/0000:02:00.0/net/eth10/type: 1
		sys/class/net/eth2 -> ../../devices/pci0000:40/0000:40:03.0/virtio2/net/eth2
		sys/devices/pci0000:40/0000:40:03.0/numa_node: 1
		sys/devices/pci0000:40/0000:40:03.0/virtio2/net/eth2/device -> ../../../virtio2
		sys/devices/pci0000:40/0000:40:03.0/virtio2/net/eth2/operstate: unknown
		sys/devices/pci0000:40/0000:40:03.0/virtio2/net/eth2/carrier: 0
		sys/devices/pci0000:40/0000:40:03.0/virtio2/net/eth2/flags: 0x1003
		sys/devices/pci0000:40/0000:40:03.0/virtio2/net/eth2/speed: -1
		sys/devices/pci0000:40/0000:40:03.0/virtio2/net/eth2/type: 1
		sys/class/net/eth3 -> ../../devices/LNXSYSTM:00/VMBUS:01/8bde/net/eth3
		sys/devices/LNXSYSTM:00/VMBUS:01/8bde/net/eth3/device -> ../../../8bde
		sys/devices/LNXSYSTM:00/VMBUS:01/8bde/net/eth3/operstate: down
		sys/devices/LNXSYSTM:00/VMBUS:01/8bde/net/eth3/speed: 65535
		sys/devices/LNXSYSTM:00/VMBUS:01/8bde/net/eth3/type: 1
		sys/class/net/ib0/type: 32
		sys/class/net/ib0/flags: 0x1003
		sys/class/net/ib0/speed: 4294967295
		sys/class/net/ib0/carrier: 1
		sys/class/net/ib0/device -> ../../../devices/pci0000:80/0000:82:00.0
		sys/class/net/gone -> ../../devices/virtual/net/gone
		sys/class/net/gone1 -> ../../devices/pci0000:40/0000:40:03.0/net/gone1
		sys/class/net/lo1/type: 772
		sys/class/net/lo2/flags: 0x8
		sys/class/net/wlan0 -> ../../devices/virtual/mac80211_hwsim/hwsim0/net/wlan0
		sys/devices/virtual/mac80211_hwsim/hwsim0/net/wlan0/device -> ../../../hwsim0
		sys/class/net/tap0/operstate: unknown
		sys/class/net/tap0/carrier: 1
		sys/class/net/tap0/flags: 0x1002
		sys/class/net/tap0/type: 1`)}
	require.Equal(t, []Link{
		{Name: "eth2", Place: Place{NUMA: 1, PCI: []string{"pci0000:40", "0000:40:03.0"}}, Type: 1},
		{Name: "eth3", Place: Place{NUMA: -1}, Type: 1},
		{
			Name: "eth10", Place: Place{CPUs: cpuset.Span(0, 3), PCI: []string{"pci0000:00", "0000:00:01.1",
				"0000:02:00.0"}},
			Up: true, MTU: 9000, Speed: 200000, Type: 1,
		},
		{Name: "gone", Place: Place{NUMA: -1}, Virtual: true},
		{Name: "gone1", Place: Place{NUMA: 1, PCI: []string{"pci0000:40", "0000:40:03.0"}}},
		{Name: "ib0", Place: Place{NUMA: -1}, Up: true, Type: 32},
		{Name: "lo", Place: Place{NUMA: -1}, Up: true, Loopback: true, Virtual: true, MTU: 65536, Type: 772},
		{Name: "lo1", Place: Place{NUMA: -1}, Loopback: true, Virtual: true, Type: 772},
		{Name: "lo2", Place: Place{NUMA: -1}, Loopback: true, Virtual: true},
		{Name: "tap0", Place: Place{NUMA: -1}, Virtual: true, Type: 1},
		{Name: "wlan0", Place: Place{NUMA: -1}, Virtual: true},
	}, r.links())
	require.Empty(t, r.notes)
}

func TestPCIPath(t *testing.T) {
	for of, want := range map[string]string{
		"":                           "",
		"sys/devices/virtual/net/lo": "",
		"sys/devices/platform/soc/4000000.pcie/pci0002:00/0002:00:00.0/0002:01:00.1/net/eth0": "sys/devices/" +
			"platform/soc/4000000.pcie/pci0002:00/0002:00:00.0/0002:01:00.1",
		"sys/devices/platform/0000:00:00.0/net/eth0":                                         "",
		"sys/devices/pci0000:00/0000:00:1f.8g/0000:00:1f/0000:00:1F.0/x0000:00:1f.0/00:1f.0": "sys/devices/pci0000:00",
		"sys/devices/pci00:00/pci/0000:00:00.0":                                              "",
	} {
		folder, pci := pciPath(of)
		require.Equal(t, want, folder)
		if want != "" {
			require.Equal(t, path.Base(want), pci[len(pci)-1])
		} else {
			require.Nil(t, pci)
		}
	}
}

func TestManyLinks(t *testing.T) {
	var lines strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&lines, "sys/class/net/eth0.%d/operstate: up\nsys/class/net/eth0.%d/speed: fast\n", i, i)
	}
	r := &reader{fsys: tree(lines.String())}
	links := r.links()
	require.Len(t, links, 1000)
	require.Equal(t, "eth0.999", links[999].Name)
	require.Len(t, r.notes, mostNotes)
}

// Whatever a tree holds, what is read of it can be printed and passed on, and
// numbers are in their ranges. Paths are abbreviated: small inputs are found and
// minimized sooner.
func FuzzDevices(f *testing.F) {
	long := strings.NewReplacer("I/", "sys/class/infiniband/", "N/", "sys/class/net/", "D/",
		"sys/devices/pci0000:00/0000:02:00.0/", "P/", "ports/1/", "../D", "../../devices/pci0000:00/0000:02:00.0")
	f.Add("I/a -> ../D/a\nD/numa_node: 9\nD/local_cpus: f,0\nD/a/P/lid: 0x3a4\nD/a/P/rate: 56 Gb/sec")
	f.Add("I/a/P/gids/1: 0000:0000:0000:0000:0000:ffff:0a01:0203\nI/a/P/gid_attrs/types/1: RoCE " +
		"v2\nI/a/P/gid_attrs/ndevs/1: eth2")
	f.Add("I/a/P/state: 4: ACTIVE\nI/a/P/pkeys/0: 0xffff\nI/a/device -> ../../../../../etc\nI/b/ports/0/state: : ")
	f.Add("I/a/P/state: 4: ACTIVE\nI/a/device/uevent: PCI_SLOT_NAME=0000:02:00.0\nsys/bus/pci/devices/0000:02:00.0 " +
		"-> ../../../devices/pci0000:00/0000:02:00.0")
	f.Add("N/eth0 -> ../D/net/eth0\nD/numa_node: -1\nD/local_cpulist: 0-3\nD/net/eth0/mtu: 1500\nD/net/eth0/speed: " +
		"-1\nN/pci: pci\nN/lo/flags: 0x9")
	f.Fuzz(func(t *testing.T, lines string) {
		r := &reader{fsys: tree(long.Replace(lines))}
		plain := func(texts ...string) {
			for _, text := range texts {
				require.LessOrEqual(t, len(text), mostName)
				require.False(t, strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c > '~' }), "%q",
					text)
			}
		}
		for _, h := range r.hcas() {
			plain(append(h.PCI, h.Name)...)
			require.NotEmpty(t, h.Ports)
			require.GreaterOrEqual(t, h.NUMA, -1)
			for _, p := range h.Ports {
				plain(p.State, p.Physical, p.Layer)
				require.True(t, p.Rate >= 0 && p.Rate < 1e6)
				for _, g := range p.GIDs {
					plain(g.Type, g.Link)
				}
			}
		}
		for _, l := range r.links() {
			plain(append(l.PCI, l.Name)...)
			require.GreaterOrEqual(t, l.NUMA, -1)
			require.GreaterOrEqual(t, min(l.MTU, l.Speed, l.Type), 0)
		}
		require.LessOrEqual(t, len(r.notes), mostNotes)
	})
}
