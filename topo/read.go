package topo

import (
	"io/fs"
	"strconv"
	"strings"

	"ibrun/internal/cpuset"
)

// Read makes a Machine of the sysfs and procfs below sys/ and proc/ of a folder:
// pseudo.Here for the machine we run on, or a capture of another one. It never fails. What
// is missing is guessed, at the worst as one flat node; what contradicts the rest
// is left out; Machine.Notes tells.
//
// When two say different things, these win, from the first to the last: which
// CPUs are online, NUMA nodes, packages, cores, caches. A process loses more by
// memory that is far than by a neighbour in its package.
func Read(fsys fs.FS) *Machine {
	r := &reader{fsys: fsys}
	m := r.places()
	m.Load = r.load()
	m.HCAs, m.Links = r.hcas(), r.links()
	m.Notes = r.notes
	return m
}

// ReadPlaces is Read for those who bind ranks and tell nobody about it, with half of the files: no
// load, no limits of cgroups besides what the kernel says of this process itself, and of virtual
// interfaces the names. alone: there are no other nodes, so no interfaces either, but with HCAs.
func ReadPlaces(fsys fs.FS, alone bool) *Machine {
	r := &reader{fsys: fsys, brief: true}
	m := r.places()
	if m.HCAs = r.hcas(); len(m.HCAs) > 0 || !alone {
		m.Links = r.links()
	}
	m.Notes = r.notes
	return m
}

// places reads CPUs and memory, and what of them is allowed.
func (r *reader) places() *Machine {
	m := &Machine{}
	r.processors(m)
	m.Memories = r.memories(m)
	m.L3s = r.caches(m)
	r.agree(m)
	m.order()
	m.Slower = r.slower(m)
	r.allowed(m)
	return m
}

// load is the first number of proc/loadavg, the mean of one minute.
func (r *reader) load() float64 {
	text, _ := r.text("proc/loadavg")
	word, _, _ := strings.Cut(text, " ")
	load, err := strconv.ParseFloat(word, 64)
	if err != nil || !(load >= 0 && load < 1e9) {
		return -1
	}
	return load
}

// parts divides CPUs into the sets that the kernel puts them in. It asks for the
// first CPU of each set only, and takes a CPU for the first set that claims it.
// CPUs of which nothing is said that can be are the rest.
func (r *reader) parts(cpus cpuset.Set, what string, ask func(cpu int) (Object, bool)) (parts []Object,
	rest cpuset.Set) {
	var known cpuset.Set
	for cpu := range cpus.All() {
		if known.Has(cpu) {
			continue
		}
		o, ok := ask(cpu)
		if ok && !o.CPUs.Has(cpu) {
			r.note("the %s of CPU %d is said to be that of CPUs %.60s alone: not believed", what, cpu, o.CPUs)
			ok = false
		}
		if !ok {
			rest.Add(cpu)
			continue
		}
		o.CPUs = o.CPUs.And(cpus)
		if o.CPUs.Meets(known) {
			r.note("the %s of CPU %d is said to hold CPUs of another one: they stay there", what, cpu)
			o.CPUs = o.CPUs.Without(known)
		}
		known = known.Or(o.CPUs)
		parts = append(parts, o)
	}
	return parts, rest.Without(known)
}

// either is a set of CPUs that the kernel writes both as a list and as a mask.
// Old kernels have the mask alone.
func (r *reader) either(list, mask string) (cpuset.Set, bool) {
	if s, ok := r.list(list); ok && !s.Empty() {
		return s, true
	}
	s, ok := r.mask(mask)
	return s, ok && !s.Empty()
}

// id is a file that holds the kernel's number of an object, or -1.
func (r *reader) id(path string) int {
	id, ok := r.number(path)
	if !ok || id < 0 {
		return -1
	}
	return id
}

// numbered are the numbers of a folder's entries like cpu0, below mostCPUs.
func (r *reader) numbered(dir, prefix string) cpuset.Set {
	var s cpuset.Set
	for _, name := range r.names(dir) {
		digits, ok := strings.CutPrefix(name, prefix)
		n, err := strconv.Atoi(digits)
		if !ok || err != nil || strconv.Itoa(n) != digits || n < 0 {
			continue
		}
		if n >= mostCPUs {
			r.note("%s/%s is beyond what any kernel has: left out", dir, name)
			continue
		}
		s.Add(n)
	}
	return s
}
