package hwloctest

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/cpuset"
	"ibrun/topo"
)

// object is a part of a machine in hwloc's XML (hwloc2.dtd).
type object struct {
	Type        string   `xml:"type,attr"`
	ID          string   `xml:"os_index,attr"` // empty: the kernel has no number for it
	CPUs        string   `xml:"cpuset,attr"`
	Complete    string   `xml:"complete_cpuset,attr"` // with those that may not be used
	Allowed     string   `xml:"allowed_cpuset,attr"`  // of the machine
	AllowedMems string   `xml:"allowed_nodeset,attr"` // of the machine
	Memory      uint64   `xml:"local_memory,attr"`    // of NUMA nodes, in bytes
	Objects     []object `xml:"object"`
}

// topology is a file of hwloc's XML.
type topology struct {
	Machine   object `xml:"object"`
	Distances []struct {
		Type    string   `xml:"type,attr"`
		Name    string   `xml:"name,attr"`
		Indexes []string `xml:"indexes"`
		Values  []string `xml:"u64values"`
	} `xml:"distances2"`
}

// Compare fails a test where a machine is not what hwloc reads below the same
// folder: online CPUs, packages, NUMA nodes with memory and distances, cores,
// last-level caches, which CPUs are in which, and what may be used. hwloc
// runs twice, with and without what the tree's cgroups forbid. The folder must
// hold sys/ and proc/.
//
// Known differences, all of which are checked as they are:
//   - hwloc reads cgroups, but for a tree of another machine neither the affinity
//     nor the memory's bounds in proc/self/status. Ours are held against hwloc's
//     without what that file forbids.
//   - Where the kernel says nothing of packages or cores, hwloc has none, and we
//     have one package for all and a core for each CPU, with the ID -1.
//   - hwloc lists each level of caches. From them, the last level is found by the
//     rule of topo.Machine: level 3, else the highest; of a level only if any of
//     its caches serves two cores.
//   - hwloc leaves out a table of distances unless it has all of it.
//   - Of two hierarchies with cpusets hwloc reads one, there only the group of
//     proc/self/cgroup itself, not those above it, and with v1 what was asked for
//     (cpuset.cpus), not what is in effect. Trees where this matters cannot be
//     compared.
func Compare(t testing.TB, m *topo.Machine, dir string) {
	t.Helper()
	Valid(t, m)
	whole := lstopo(t, dir, "--disallowed")
	require.Equal(t, cpus(t, whole.Machine.CPUs).String(), m.Online.String(), "online CPUs")
	require.Equal(t, ids(whole.find("PU")), ids(lines(m.Objects(topo.PU), m.Online)), "PUs")

	cgroup := cpus(t, whole.Machine.Allowed)
	mems := cpus(t, whole.Machine.AllowedMems)
	require.Equal(t, cgroup.And(status(t, dir, "Cpus_allowed_list", cgroup)).String(), m.Allowed.String(),
		"allowed CPUs")
	require.Equal(t, mems.And(status(t, dir, "Mems_allowed_list", mems)).String(), m.AllowedMems.String(),
		"allowed NUMA nodes")

	whole.compare(t, m, m.Online, whole.levels())
	// of the whole: it forgets which were worth it where CPUs are forbidden
	require.Equal(t, whole.find("Die"), lines(m.Dies, m.Online), "dies")
	require.Equal(t, whole.memories(bare(m)), memories(m, m.Online), "NUMA nodes")
	for _, d := range whole.Distances {
		if d.Type == "NUMANode" && d.Name == "NUMALatency" {
			require.Equal(t, strings.Fields(strings.Join(d.Values, " ")), distances(m), "distances")
		}
	}

	part := lstopo(t, dir)
	require.Equal(t, cgroup.String(), cpus(t, part.Machine.CPUs).String(), "hwloc's own idea of what is allowed")
	part.compare(t, m, cgroup, whole.levels())
	require.Equal(t, part.memories(bare(m)), slices.DeleteFunc(memories(m, cgroup),
		func(l line) bool { return !mems.Has(l.id) }), "allowed NUMA nodes")
}

// compare holds what a machine has among some CPUs against hwloc's reading of
// these.
func (h *topology) compare(t testing.TB, m *topo.Machine, among cpuset.Set, levels []string) {
	t.Helper()
	for _, c := range []struct {
		kind  string
		ours  []topo.Object
		guess []line // what we have where hwloc has none
	}{
		{"Package", m.Packages, []line{{id: -1, cpus: among.String()}}},
		{"Core", m.Cores, lines(alone(m.Online), among)},
	} {
		theirs := h.find(c.kind)
		if len(theirs) == 0 {
			theirs = c.guess
		}
		require.Equal(t, theirs, lines(c.ours, among), c.kind)
	}
	require.Equal(t, h.lastCaches(levels), lines(m.L3s, among), "last-level caches")
}

// line is an object in a form that prints well where two lists differ.
type line struct {
	id    int
	cpus  string
	bytes uint64
}

// lines are the parts of objects among some CPUs, by lowest CPU.
func lines(objects []topo.Object, among cpuset.Set) []line {
	var ls []line
	for _, o := range objects {
		if part := o.CPUs.And(among); !part.Empty() {
			ls = append(ls, line{id: o.ID, cpus: part.String()})
		}
	}
	return sorted(ls)
}

func sorted(ls []line) []line {
	first := func(l line) int {
		s, _ := cpuset.ParseList(l.cpus)
		return s.First()
	}
	slices.SortFunc(ls, func(a, b line) int { return cmp.Compare(first(a), first(b)) })
	return ls
}

func ids(ls []line) (ids []int) {
	for _, l := range ls {
		ids = append(ids, l.id)
	}
	return ids
}

// alone makes each CPU an object without a number.
func alone(cpus cpuset.Set) (objects []topo.Object) {
	for cpu := range cpus.All() {
		objects = append(objects, topo.Object{ID: -1, CPUs: cpuset.Of(cpu)})
	}
	return objects
}

// memories are the NUMA nodes, with their CPUs among some.
func memories(m *topo.Machine, among cpuset.Set) (ls []line) {
	for i := range m.Memories {
		n := &m.Memories[i]
		ls = append(ls, line{n.ID, n.CPUs.And(among).String(), n.Bytes})
	}
	return ls
}

// bare are the NUMA nodes of memory only: hwloc puts them and their devices
// where it likes.
func bare(m *topo.Machine) (ids cpuset.Set) {
	for i := range m.Memories {
		if n := &m.Memories[i]; n.CPUs.Empty() {
			ids.Add(n.ID)
		}
	}
	return ids
}

func distances(m *topo.Machine) (words []string) {
	for i := range m.Memories {
		for _, d := range m.Memories[i].Distance {
			words = append(words, strconv.Itoa(d))
		}
	}
	return words
}

// memories are hwloc's NUMA nodes; those of a set have no CPUs, whatever hwloc
// gives them of their neighbours'.
func (h *topology) memories(bare cpuset.Set) []line {
	var ls []line
	h.Machine.walk(func(o *object) {
		if o.Type == "NUMANode" {
			l := o.line()
			if bare.Has(l.id) {
				l.cpus = ""
			}
			ls = append(ls, l)
		}
	})
	slices.SortFunc(ls, func(a, b line) int { return cmp.Compare(a.id, b.id) })
	return ls
}

// find is hwloc's objects of a type that have CPUs, by lowest CPU.
func (h *topology) find(kind string) []line {
	var ls []line
	h.Machine.walk(func(o *object) {
		if l := o.line(); o.Type == kind && l.cpus != "" {
			ls = append(ls, l)
		}
	})
	return sorted(ls)
}

// lastLevel is the type of the cache that a PU's way down from the machine ends
// with for us: L3Cache or, without one, the highest.
func lastLevel(way []*object) (last *object) {
	for _, o := range way {
		if strings.HasPrefix(o.Type, "L") && !strings.HasSuffix(o.Type, "iCache") && o.Type <= "L3Cache" &&
			last == nil {
			last = o
		}
	}
	return last
}

// levels are the types of last-level caches of which any serves several cores.
func (h *topology) levels() (levels []string) {
	serves := map[*object]map[*object]bool{}
	h.Machine.ways(nil, func(way []*object) {
		last := lastLevel(way)
		for _, o := range way {
			if o.Type == "Core" && last != nil {
				if serves[last] == nil {
					serves[last] = map[*object]bool{}
				}
				serves[last][o] = true
			}
		}
	})
	for o, cores := range serves {
		if len(cores) > 1 {
			levels = append(levels, o.Type)
		}
	}
	return levels
}

// lastCaches are the last-level caches that are of some types.
func (h *topology) lastCaches(levels []string) []line {
	seen := map[*object]bool{}
	var ls []line
	h.Machine.ways(nil, func(way []*object) {
		if o := lastLevel(way); o != nil && !seen[o] && slices.Contains(levels, o.Type) {
			seen[o] = true
			ls = append(ls, o.line())
		}
	})
	return sorted(ls)
}

func (o *object) line() line {
	id, err := strconv.Atoi(o.ID)
	if err != nil {
		id = -1
	}
	set, err := parse(o.CPUs)
	if err != nil {
		return line{id: id, cpus: fmt.Sprint(err)}
	}
	return line{id, set.String(), o.Memory}
}

func (o *object) walk(visit func(*object)) {
	visit(o)
	for i := range o.Objects {
		o.Objects[i].walk(visit)
	}
}

// ways visits each PU with the objects that hold it, the machine first.
func (o *object) ways(above []*object, visit func(way []*object)) {
	way := append(slices.Clone(above), o)
	if o.Type == "PU" {
		visit(way)
	}
	for i := range o.Objects {
		o.Objects[i].ways(way, visit)
	}
}

// lstopo runs hwloc on a tree.
func lstopo(t testing.TB, dir string, options ...string) *topology {
	t.Helper()
	cmd := exec.Command("lstopo-no-graphics", append([]string{"--if", "fsroot", "--input", dir, "--of", "xml",
		"--no-io"}, options...)...)
	out, err := cmd.Output()
	require.NoError(t, err, "lstopo-no-graphics of package hwloc or hwloc-nox is needed")
	h := &topology{}
	require.NoError(t, xml.Unmarshal(out, h))
	return h
}

// cpus reads hwloc's form of a set.
func cpus(t testing.TB, mask string) cpuset.Set {
	t.Helper()
	s, err := parse(mask)
	require.NoError(t, err)
	return s
}

// parse reads hwloc's form of a set, which is the kernel's with 0x before each
// word, and nothing for a word that is 0.
func parse(mask string) (cpuset.Set, error) {
	words := strings.Split(mask, ",")
	for i, w := range words {
		words[i] = "0" + strings.TrimPrefix(w, "0x")
		if len(words[i]) > 8 {
			words[i] = words[i][1:]
		}
	}
	return cpuset.ParseMask(strings.Join(words, ","))
}

// status is a list of proc/self/status of a tree, or what stands for it where
// there is no such file.
func status(t testing.TB, dir, name string, otherwise cpuset.Set) cpuset.Set {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "proc/self/status"))
	if err != nil {
		return otherwise
	}
	for l := range strings.Lines(string(text)) {
		if list, ok := strings.CutPrefix(l, name+":"); ok {
			s, err := cpuset.ParseList(list)
			require.NoError(t, err)
			return s
		}
	}
	return otherwise
}
