package topo

import "ibrun/internal/cpuset"

// allowed finds what this process may use: what its affinity, its memory policy's
// bounds (proc/self/status) and its cgroups leave. In a capture, it is the
// process that made it. A restriction that leaves nothing is no restriction of
// this machine and is passed over.
func (r *reader) allowed(m *Machine) {
	var mems cpuset.Set
	for i := range m.Memories {
		mems.Add(m.Memories[i].ID)
	}
	m.Allowed, m.AllowedMems = m.Online, mems
	narrow := func(to *cpuset.Set, by cpuset.Set, what, from string) {
		if by.Empty() {
			return
		}
		if !to.Meets(by) {
			r.note("%.80q allows %s %.60s, of which there is none: passed over", from, what, by)
			return
		}
		*to = to.And(by)
	}
	status, _ := r.text("proc/self/status")
	cpus, nodes := r.status(status, "Cpus_allowed_list"), r.status(status, "Mems_allowed_list")
	narrow(&m.Allowed, cpus, "CPUs", "proc/self/status")
	narrow(&m.AllowedMems, nodes, "NUMA nodes", "proc/self/status")
	if r.brief && !cpus.Empty() && !nodes.Empty() {
		return
	}
	for _, g := range r.groups() {
		switch g.kind {
		case unified:
			narrow(&m.Allowed, r.nearest(g, "cpuset.cpus.effective"), "CPUs", g.dir())
			narrow(&m.AllowedMems, r.nearest(g, "cpuset.mems.effective"), "NUMA nodes", g.dir())
			m.Quota = tighter(m.Quota, r.quota(g, r.max))
			m.MemoryLimit = tighter(m.MemoryLimit, r.bytes(g, "memory.max"))
		case legacySet:
			narrow(&m.Allowed, r.nearest(g, "cpuset.effective_cpus", "cpuset.cpus", "cpus"), "CPUs", g.dir())
			narrow(&m.AllowedMems, r.nearest(g, "cpuset.effective_mems", "cpuset.mems", "mems"), "NUMA nodes", g.dir())
		case legacyTime:
			m.Quota = tighter(m.Quota, r.quota(g, r.cfs))
		case legacyMemory:
			m.MemoryLimit = tighter(m.MemoryLimit, r.bytes(g, "memory.limit_in_bytes"))
		}
	}
}

// status is a list in the text of proc/self/status; empty: there is none.
func (r *reader) status(text, name string) cpuset.Set {
	value, ok := field(text, name, ":")
	if !ok || len(value) > mostSet {
		return cpuset.Set{}
	}
	s, err := cpuset.ParseList(value)
	if err != nil {
		r.note("proc/self/status: %s: %v", name, err)
	}
	return s
}
