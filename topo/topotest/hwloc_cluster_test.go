//go:build cluster

package topotest_test

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/cpuset"
	"ibrun/topo"
	"ibrun/topo/hwloctest"
	"ibrun/topo/topotest"
)

// element is an object in lstopo's XML.
type element struct {
	Type    string      `xml:"type,attr"`
	Index   string      `xml:"os_index,attr"`
	Name    string      `xml:"name,attr"`
	CPUs    bits        `xml:"cpuset,attr"`
	Allowed bits        `xml:"allowed_cpuset,attr"`
	Mems    bits        `xml:"allowed_nodeset,attr"`
	Memory  uint64      `xml:"local_memory,attr"`
	Bus     string      `xml:"pci_busid,attr"`
	Details []detail    `xml:"info"`
	Below   []element   `xml:"object"`
	Tables  []distances `xml:"distances2"` // these two are of the topology, not of an object
	Kinds   []element   `xml:"cpukind"`
}

type detail struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

type distances struct {
	Values []string `xml:"u64values"`
}

// bits is a set as hwloc writes it.
type bits struct{ cpuset.Set }

// UnmarshalXMLAttr reads words of 32 bits like 0x00000001,,0x0: those that are
// zero may be empty.
func (b *bits) UnmarshalXMLAttr(attr xml.Attr) (err error) {
	words := strings.Split(strings.ReplaceAll(attr.Value, "0x", ""), ",")
	for i, w := range words {
		words[i] = cmp.Or(w, "0")
	}
	b.Set, err = cpuset.ParseMask(strings.Join(words, ","))
	return err
}

// device is where hwloc sees one: what it says of it, the CPUs of the object
// that it is below, and the addresses from the first bridge on.
type device struct {
	details map[string]string
	cpus    cpuset.Set
	bus     []string
}

// view is a tree as hwloc reads it.
type view struct {
	root    element
	objects map[string][]topotest.Object // by type
	memory  map[int]uint64               // of NUMA nodes, by number
	devices map[string]device
	table   string // distances of NUMA nodes, by rows; empty: none
	slower  cpuset.Set
}

func look(t testing.TB, dir string) view {
	out, err := exec.Command("lstopo-no-graphics", "--input", dir, "--disallowed", "--whole-io", "--of", "xml").Output()
	require.NoError(t, err, "this test needs lstopo-no-graphics: apt-get install hwloc-nox")
	var topology element
	require.NoError(t, xml.Unmarshal(out, &topology))
	require.Len(t, topology.Below, 1)
	v := view{root: topology.Below[0], objects: map[string][]topotest.Object{}, memory: map[int]uint64{},
		devices: map[string]device{}}
	v.add(t, &v.root, cpuset.Set{}, nil)
	for _, table := range topology.Tables {
		v.table = strings.Join(strings.Fields(strings.Join(table.Values, " ")), " ")
	}
	if len(topology.Kinds) > 1 {
		v.slower = topology.Kinds[0].CPUs.Set // the order is that of efficiency
	}
	return v
}

func (v *view) add(t testing.TB, e *element, cpus cpuset.Set, bus []string) {
	if !e.CPUs.Empty() {
		cpus = e.CPUs.Set
	}
	if e.Bus != "" {
		bus = append(bus[:len(bus):len(bus)], e.Bus)
	}
	switch e.Type {
	case "OSDev":
		d := device{map[string]string{}, cpus, bus}
		for _, said := range e.Details {
			d.details[said.Name] = said.Value
		}
		v.devices[e.Name] = d
	case "Bridge", "PCIDev":
	default:
		o := topotest.Object{ID: -1, CPUs: e.CPUs.Set}
		if e.Index != "" {
			_, err := fmt.Sscan(e.Index, &o.ID)
			require.NoError(t, err)
		}
		v.objects[e.Type] = append(v.objects[e.Type], o)
		if e.Type == "NUMANode" {
			v.memory[o.ID] = e.Memory
		}
	}
	for i := range e.Below {
		v.add(t, &e.Below[i], cpus, bus)
	}
}

// compare holds hwloc's view against the description.
func compare(t testing.TB, m topotest.Machine, v view) {
	l := m.Layout()
	var cpus cpuset.Set
	for _, o := range v.objects["PU"] {
		cpus.Add(o.ID)
	}
	require.Equal(t, l.Online.String(), cpus.String(), "PUs")
	require.Equal(t, show(l.Cores, true), show(v.objects["Core"], true), "cores")
	require.Equal(t, show(l.Packages, true), show(v.objects["Package"], true), "packages")
	require.Equal(t, show(l.L2s, false), show(v.objects["L2Cache"], false), "L2")
	require.Equal(t, show(l.L3s, false), show(v.objects["L3Cache"], false), "L3")
	require.Equal(t, show(dies(m, l), true), show(v.objects["Die"], true), "dies")
	require.Equal(t, l.Cgroup.String(), v.root.Allowed.String(), "allowed CPUs")
	require.Equal(t, l.Mems.String(), v.root.Mems.String(), "allowed NUMA nodes")
	require.Equal(t, l.Slower.String(), v.slower.String(), "slower CPUs")
	if len(l.Memories) == 0 {
		require.Equal(t, "0: "+l.Online.String(), show(v.objects["NUMANode"], true), "NUMA nodes")
	} else {
		compareMemory(t, m, l, v)
	}
	for _, h := range m.HCAs {
		compareHCA(t, h, l, v.devices[h.Name])
	}
	for _, link := range m.Links {
		compareLink(t, m, link, l, v)
	}
}

func compareMemory(t testing.TB, m topotest.Machine, l topotest.Layout, v view) {
	seen := v.objects["NUMANode"]
	slices.SortFunc(seen, func(a, b topotest.Object) int { return a.ID - b.ID })
	require.Len(t, seen, len(l.Memories))
	for i, o := range l.Memories {
		if o.CPUs.Empty() {
			seen[i].CPUs = cpuset.Set{} // hwloc puts it near some node, by the distances
		}
	}
	require.Equal(t, show(l.Memories, true), show(seen, true), "NUMA nodes")
	var table []string
	files := m.Files()
	for _, o := range l.Memories {
		row, err := files.ReadFile(fmt.Sprintf("sys/devices/system/node/node%d/distance", o.ID))
		require.NoError(t, err)
		table = append(table, strings.TrimSpace(string(row)))
		require.EqualValues(t, max(m.MiBPerNUMA, 4096)<<20, v.memory[o.ID], "memory")
	}
	if len(table) == 1 {
		table = nil // hwloc has nothing to say of a single node
	}
	require.Equal(t, strings.Join(table, " "), v.table, "distances")
}

// comparePlace holds a device's NUMA node and addresses against the
// description; addresses that the generator made up are not looked at.
func comparePlace(t testing.TB, name string, numa int, pci []string, l topotest.Layout, d device) {
	require.NotNil(t, d.details, "hwloc does not see %s", name)
	if pci != nil {
		require.Equal(t, pci[1:], d.bus, name)
	}
	local := l.Online // of a device whose NUMA node is not known, or has no CPUs
	for _, o := range l.Memories {
		if o.ID == numa && !o.CPUs.Empty() {
			local = o.CPUs
		}
	}
	require.Equal(t, local.String(), d.cpus.String(), "CPUs near %s", name)
}

func compareHCA(t testing.TB, h topotest.HCA, l topotest.Layout, d device) {
	comparePlace(t, h.Name, h.NUMA, h.PCI, l, d)
	want, got := map[string]string{}, map[string]string{}
	for i, p := range h.Ports {
		name := fmt.Sprintf("Port%d", i+1)
		want[name+"State"] = "4"
		if p.State == "DOWN" {
			want[name+"State"] = "1"
		}
		want[name+"LID"] = fmt.Sprintf("%#x", p.LID)
		want[name+"LMC"] = fmt.Sprint(p.LMC)
	}
	for name, value := range d.details {
		if strings.HasPrefix(name, "Port") && !strings.Contains(name, "GID") {
			got[name] = value
		}
	}
	require.Equal(t, want, got, h.Name)
}

func compareLink(t testing.TB, m topotest.Machine, link topotest.Link, l topotest.Layout, v view) {
	d, seen := v.devices[link.Name]
	require.Equal(t, !link.Virtual, seen, "%s: hwloc sees real devices only", link.Name)
	if i := slices.IndexFunc(m.HCAs, func(h topotest.HCA) bool { return h.Name == link.HCA }); i >= 0 {
		require.Equal(t, v.devices[link.HCA].bus, d.bus, "%s shares a card with %s", link.Name, link.HCA)
		link.NUMA, link.PCI = m.HCAs[i].NUMA, m.HCAs[i].PCI
	}
	if seen {
		comparePlace(t, link.Name, link.NUMA, link.PCI, l, d)
	}
}

func TestRangerWithHwloc(t *testing.T) {
	v := look(t, write(t, topotest.Ranger))
	compare(t, topotest.Ranger, v)
	require.Len(t, v.objects["Package"], 4)
	require.Len(t, v.objects["PU"], 16)
	require.Equal(t, "0x3a4", v.devices["mthca0"].details["Port1LID"])
	require.Equal(t, "8-11", v.devices["mthca0"].cpus.String())
}

func init() {
	stride = 8 // hwloc takes half a second for each
	compareHwloc = func(t *testing.T, m topotest.Machine, got *topo.Machine) {
		dir := write(t, m)
		compare(t, m, look(t, dir))
		require.Equal(t, got, topo.Read(os.DirFS(dir)), "on disk")
		hwloctest.Compare(t, got, dir)
		hwloctest.CompareDevices(t, got, dir)
	}
}

// TestHwloc compares every eighth of a hundred machines with what hwloc reads.
func TestHwloc(t *testing.T) {
	t.Run("HundredMachines", TestHundredMachines)
}

// write makes the files of a machine.
func write(t testing.TB, m topotest.Machine) string {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, m.Files()))
	return dir
}
