package show

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"ibrun/internal/cpuset"
	"ibrun/topo"
)

// fastLink is the speed in Mb/s from which an interface may be a fabric's, as those of Slingshot.
const fastLink = 100_000

// ServesHwloc reports whether the result of HwlocXML can replace the topology that hwloc itself would read. It
// returns false for a node that has several HCAs with active ports, or several network interfaces of at least fastLink.
// Open MPI 5 searches hwloc's tree for the device nearest to the rank, and the XML contains no devices.
func ServesHwloc(m *topo.Machine) bool {
	fast := map[string]bool{} // devices by address
	for i := range m.HCAs {
		if slices.ContainsFunc(m.HCAs[i].Ports, func(p topo.Port) bool { return p.Active() }) {
			fast[address(m.HCAs[i].Place)+m.HCAs[i].Name] = true
		}
	}
	for i := range m.Links {
		l := &m.Links[i]
		ofHCA := slices.ContainsFunc(m.HCAs, func(h topo.HCA) bool { return address(h.Place) == address(l.Place) })
		if l.Up && !l.Virtual && l.Speed >= fastLink && !ofHCA {
			fast[l.Name] = true
		}
	}
	return len(fast) < 2
}

// address is a device's on its bus; empty: it has none.
func address(p topo.Place) string {
	if len(p.PCI) == 0 {
		return ""
	}
	return p.PCI[len(p.PCI)-1]
}

// HwlocXML returns the topology of m as XML of hwloc 2.
func HwlocXML(m *topo.Machine) string {
	w := writer{}
	w.WriteString("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n" +
		"<topology version=\"2.0\">\n")
	w.object(tree(m), cpuset.Set{})
	w.WriteString("</topology>\n")
	return w.String()
}

// xmlObject is an object of hwloc's tree: the machine, a package, a group, a cache, a core, a CPU or a NUMA node.
type xmlObject struct {
	kind   string // hwloc's name of it
	id     int    // the kernel's number; -1: none
	cpus   cpuset.Set
	nodes  cpuset.Set   // numbers of the NUMA nodes attached to it and its parts
	memory []*xmlObject // NUMA nodes attached to the object; hwloc does not count them among parts
	parts  []*xmlObject
	within *xmlObject // object that contains it; nil for the machine

	bytes           uint64     // of a NUMA node
	lost, lostNodes cpuset.Set // of the machine: CPUs and NUMA nodes that may not be used
}

// tree has all objects in their places. Of two objects one holds the other, or they share nothing.
func tree(m *topo.Machine) *xmlObject {
	root := &xmlObject{kind: "Machine", id: -1, cpus: m.Allowed, lost: m.Online}
	all := slices.Concat(some(m, "Package", m.Packages), some(m, "L3Cache", m.L3s), some(m, "Core", m.Cores))
	memory, groups := nodes(m, root, all)
	all = append(groups, all...)
	slices.SortStableFunc(all, func(a, b *xmlObject) int { return cmp.Compare(b.cpus.Len(), a.cpus.Len()) })
	all = append(all, some(m, "PU", m.Objects(topo.PU))...)

	smallest := make([]*xmlObject, m.Allowed.Last()+1) // by CPU: the smallest object with it that is in the tree
	for i := range smallest {
		smallest[i] = root
	}
	for _, o := range all {
		o.within = smallest[o.cpus.First()]
		o.within.parts = append(o.within.parts, o)
		for cpu := range o.cpus.All() {
			smallest[cpu] = o
		}
	}
	for _, o := range append(all, root) {
		slices.SortFunc(o.parts, func(a, b *xmlObject) int { return cmp.Compare(a.cpus.First(), b.cpus.First()) })
	}
	for _, n := range memory {
		n.within.memory = append(n.within.memory, n)
		for o := n.within; o != nil; o = o.within {
			o.nodes = o.nodes.Or(n.nodes)
		}
	}
	return root
}

// some are a machine's objects of a kind that have CPUs which may be used.
func some(m *topo.Machine, kind string, of []topo.Object) (all []*xmlObject) {
	for _, o := range of {
		if cpus := o.CPUs.And(m.Allowed); !cpus.Empty() {
			all = append(all, &xmlObject{kind: kind, id: o.ID, cpus: cpus})
		}
	}
	return all
}

// nodes are the NUMA nodes that may be used. Each is attached to the largest object below the
// machine that has the same CPUs, or the machine itself; where there is none, to a group. One
// without CPUs is the machine's.
func nodes(m *topo.Machine, root *xmlObject, all []*xmlObject) (memory, groups []*xmlObject) {
	holders := map[string]*xmlObject{"": root} // objects by their CPUs, as a kernel list
	for _, o := range all {
		if name := o.cpus.String(); holders[name] == nil {
			holders[name] = o
		}
	}
	if name := root.cpus.String(); holders[name] == nil {
		holders[name] = root
	}
	for i := range m.Memories {
		n := &m.Memories[i]
		id := max(n.ID, 0) // of a machine without NUMA
		root.lostNodes.Add(id)
		if n.ID >= 0 && !m.AllowedMems.Has(n.ID) {
			continue
		}
		cpus := n.CPUs.And(m.Allowed)
		name := cpus.String()
		if holders[name] == nil {
			holders[name] = &xmlObject{kind: "Group", id: -1, cpus: cpus}
			groups = append(groups, holders[name])
		}
		memory = append(memory, &xmlObject{kind: "NUMANode", id: id, cpus: cpus, nodes: cpuset.Of(id), bytes: n.Bytes,
			within: holders[name]})
	}
	return memory, groups
}

// writer writes the text.
type writer struct {
	strings.Builder
	objects int
}

// object writes o and all objects in it. above has the NUMA nodes that are attached to the objects around o. hwloc
// crashes if an object lacks one of the four sets.
func (w *writer) object(o *xmlObject, above cpuset.Set) {
	w.objects++
	w.WriteString(`<object type="` + o.kind + `"`)
	if o.id >= 0 {
		w.number("os_index", uint64(o.id))
	}
	nodes := o.nodes.Or(above)
	w.set("cpuset", o.cpus)
	w.set("complete_cpuset", o.cpus.Or(o.lost))
	w.set("nodeset", nodes)
	w.set("complete_nodeset", nodes.Or(o.lostNodes))
	if o.within == nil {
		w.set("allowed_cpuset", o.cpus)
		w.set("allowed_nodeset", nodes)
	}
	w.number("gp_index", uint64(w.objects))
	switch o.kind {
	case "L3Cache":
		w.number("depth", 3)
		w.number("cache_type", 0) // for data and instructions
	case "NUMANode":
		w.number("local_memory", o.bytes)
	}
	if len(o.memory)+len(o.parts) == 0 {
		w.WriteString("/>\n")
		return
	}
	w.WriteString(">\n")
	for _, n := range o.memory {
		w.object(n, cpuset.Set{})
		above = above.Or(n.nodes)
	}
	for _, part := range o.parts {
		w.object(part, above)
	}
	w.WriteString("</object>\n")
}

func (w *writer) number(name string, n uint64) {
	w.WriteString(" " + name + `="` + strconv.FormatUint(n, 10) + `"`)
}

// set writes a set in hwloc's form: hexadecimal words of 32 bits, the highest first, with nothing
// for a word in between that is 0.
func (w *writer) set(name string, s cpuset.Set) {
	w.WriteString(" " + name + `="`)
	words := s.Words()
	for i := max(s.Last(), 0) / 32; i >= 0; i-- {
		word := uint32(0)
		if i/2 < len(words) {
			word = uint32(words[i/2] >> (i % 2 * 32))
		}
		if word != 0 || i == 0 {
			w.WriteString("0x" + strconv.FormatUint(uint64(word), 16))
		}
		if i > 0 {
			w.WriteByte(',')
		}
	}
	w.WriteByte('"')
}
