package topo

import (
	"strconv"
	"strings"

	"ibrun/internal/cpuset"
)

const nodeDir = "sys/devices/system/node"

// memories are the NUMA nodes (drivers/base/node.c). Each CPU is in one: those of
// which nothing is said join a node of their package, else the first with CPUs,
// else the first of all. A kernel without NUMA has one node, 0.
func (r *reader) memories(m *Machine) []Memory {
	there := r.numbered(nodeDir, "node")
	columns := there // of the files named distance: the online nodes
	if said, ok := r.list(nodeDir + "/online"); ok && said.Meets(there) {
		columns, there = said, said.And(there)
	}
	if there.Empty() {
		return []Memory{{Object: Object{0, m.Online}, Bytes: r.memTotal("proc/meminfo")}}
	}
	var memories []Memory
	var known cpuset.Set
	for id := range there.All() {
		dir := nodeDir + "/node" + strconv.Itoa(id) + "/"
		set, _ := r.either(dir+"cpulist", dir+"cpumap")
		set = set.And(m.Online)
		if set.Meets(known) {
			r.note("%scpulist holds CPUs of another node: they stay there", dir)
			set = set.Without(known)
		}
		known = known.Or(set)
		memories = append(memories, Memory{
			Object: Object{id, set}, Bytes: r.memTotal(dir + "meminfo"), Distance: r.distances(dir+"distance", columns,
				there),
		})
	}
	if rest := m.Online.Without(known); !rest.Empty() {
		r.note("CPUs %.60s are in no NUMA node: they are taken into one near them", rest)
		assign(memories, m.Packages, rest)
	}
	return memories
}

// assign takes CPUs that are in no NUMA node into one.
func assign(memories []Memory, packages []Object, rest cpuset.Set) {
	first := func(near cpuset.Set) int {
		for i := range memories {
			if memories[i].CPUs.Meets(near) {
				return i
			}
		}
		return -1
	}
	whole := cpuset.Set{}
	for _, p := range packages {
		whole = whole.Or(p.CPUs)
	}
	fallback := max(0, first(whole))
	for _, p := range packages {
		if lost := p.CPUs.And(rest); !lost.Empty() {
			to := first(p.CPUs)
			if to < 0 {
				to = fallback
			}
			memories[to].CPUs = memories[to].CPUs.Or(lost)
		}
	}
}

// distances is a row of the table of distances, without the columns of nodes that
// are left out. ACPI's SLIT has 10 for the node itself; 255 cannot be reached.
func (r *reader) distances(path string, columns, wanted cpuset.Set) []int {
	text, ok := r.text(path)
	if !ok {
		return nil
	}
	words := strings.Fields(text)
	if len(words) != columns.Len() {
		r.note("%s has %d numbers for %d nodes: not used", path, len(words), columns.Len())
		return nil
	}
	var row []int
	i := 0
	for id := range columns.All() {
		if wanted.Has(id) {
			d, err := strconv.ParseUint(words[i], 10, 16)
			if err != nil || d == 0 {
				r.note("%s holds %.20q, which is no distance: not used", path, words[i])
				return nil
			}
			row = append(row, int(d))
		}
		i++
	}
	return row
}

// memTotal is the line "MemTotal: 8387892 kB" of a file named meminfo, in bytes.
// Those of nodes have "Node 0" before it. 0: there is none.
func (r *reader) memTotal(path string) uint64 {
	const most = 1 << 50 // kB
	text := r.head(path)
	_, after, ok := strings.Cut(text, "MemTotal:")
	if words := strings.Fields(after); len(words) > 1 && words[1] == "kB" {
		if n, err := strconv.ParseUint(words[0], 10, 64); err == nil && n < most {
			return n << 10
		}
	}
	if ok {
		r.note("%s has a MemTotal that is no number of kB", path)
	}
	return 0
}
