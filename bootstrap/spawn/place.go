package spawn

import (
	"strconv"
	"strings"

	"ibrun/bootstrap/core"
	"ibrun/bootstrap/wire"
	"ibrun/internal/cpuset"
	"ibrun/internal/job"
	"ibrun/internal/proc"
	"ibrun/topo"
	"ibrun/topo/bind"
	"ibrun/topo/show"
)

// place describes where one rank of a node runs.
type place struct {
	thread  proc.Thread
	port    string   // host channel adapter (HCA) and its port; "" if none is chosen
	devices []string // variables that tell the rank of its devices, as NAME=VALUE
}

// places decides where a node's ranks run. It is the same for a node that is
// and for one that could be. The error is the same on all nodes that have the
// same problem.
func places(m *topo.Machine, want job.Binding, n job.Node, omp int, links []string) (all []place, notes []string, err error) {
	if n.HCA != "" {
		want.HCA = n.HCA
	}
	found, notes, err := bind.Places(m, want, int(n.Ranks), omp)
	if err != nil {
		return nil, nil, err
	}
	cpus := make([]cpuset.Set, len(found))
	for i, p := range found {
		cpus[i] = p.CPUs
	}
	ports, err := bind.Ports(m, want.HCA, cpus)
	if err != nil {
		return nil, nil, err
	}
	if links = usable(m, links); len(ports) == 0 {
		ports = make([]bind.Choice, len(found))
	}
	own := alone(m, cpus)
	for i, p := range found {
		at := place{thread: proc.Thread{CPUs: p.CPUs, Mems: p.Mems, Interleave: p.Interleave}}
		if ports[i].Port != nil {
			at.port = ports[i].String()
		}
		at.devices = ports[i].Env(bind.Link(m, p.CPUs, links))
		if own[i] {
			at.devices = append(at.devices, ownCores)
		}
		all = append(all, at)
	}
	return all, notes, nil
}

// own returns the binding options of the job, reduced to the ranks of the node n.
func own(j *job.Job, n job.Node) job.Binding {
	b := j.Binding
	if len(b.Slots) == 0 {
		return b
	}
	b.Slots = nil
	for slot := n.First; slot < n.End(); slot++ {
		if rank := int(j.Layout.Rank(slot)); rank < len(j.Binding.Slots) {
			b.Slots = append(b.Slots, j.Binding.Slots[rank])
		}
	}
	return b
}

// usable is the interfaces that libraries should be told of: not the one that
// the node happened to be reached by if there is a faster one, which they will
// find themselves.
func usable(m *topo.Machine, links []string) []string {
	if len(links) != 1 {
		return links
	}
	speed := 0
	for _, l := range m.Links {
		if l.Name == links[0] {
			speed = l.Speed
		}
	}
	for _, l := range m.Links {
		if l.Up && !l.Virtual && !l.Loopback && l.Speed > speed {
			return nil
		}
	}
	return links
}

// place decides where the ranks of this node run. It reads the machine from sysfs.
func (s *Set) place() error {
	if b := s.cfg.Job.Binding; !b.Report && !b.Topo && !b.Worded() {
		s.alone = len(s.cfg.Interfaces) == 0
		s.machine = topo.ReadPlaces(proc.Here(), s.alone)
	} else {
		s.machine = topo.Read(proc.Here())
	}
	all, notes, err := places(s.machine, own(s.cfg.Job, s.cfg.Node), s.cfg.Node, threads(s.ranks[0].program), s.cfg.Interfaces)
	if err != nil {
		return err
	}
	if !proc.HasMemoryPolicies() {
		for i := range all {
			all[i].thread.Mems = cpuset.Set{}
		}
		notes = append(notes, "memory policies cannot be set here, as in many containers: memory comes from where a rank first runs")
	}
	for i, r := range s.ranks {
		r.place = all[i]
	}
	if b := s.cfg.Job.Binding; b.Report || b.Topo || b.Worded() { // who said nothing takes what he gets
		for _, n := range notes {
			s.cfg.Events.Warn(n)
		}
	}
	return nil
}

// Predict is what Placed and Warnings would say of a node if it were like m.
func Predict(m *topo.Machine, j *job.Job, n job.Node) (placed wire.Placed, notes []string, err error) {
	p := &j.Programs[0]
	for i := range j.Programs {
		if j.Programs[i].Has(j.Layout.Rank(n.First)) {
			p = &j.Programs[i]
		}
	}
	all, notes, err := places(m, own(j, n), n, threads(p), nil)
	placed.Host = n.Host
	var ranks []wire.Placement
	for i, at := range all {
		cpus, mems := at.thread.CPUs, m.AllowedMems
		if cpus.Empty() {
			cpus = m.Allowed
		}
		ranks = append(ranks, wire.Placement{
			Rank: n.First + job.Slot(i), CPUs: cpus.String(), Mems: mems.String(), Policy: at.thread.Policy(), HCA: at.port, Drawing: show.Binding(m, cpus),
		})
	}
	placed.Ranks = wire.NewPlacements(ranks...)
	return placed, notes, err
}

// threads returns the value of OMP_NUM_THREADS for a program, or 0 if it is not set. If the value is a list for
// nested regions, the first number counts.
func threads(p *job.Program) int {
	for _, e := range p.Env {
		if v, ok := strings.CutPrefix(e, "OMP_NUM_THREADS="); ok {
			first, _, _ := strings.Cut(v, ",")
			n, _ := strconv.Atoi(strings.TrimSpace(first)) // an invalid number counts as not set
			return max(0, n)
		}
	}
	return 0
}

// placed returns where the ranks run, as the kernel reports it.
func (s *Set) placed() core.Placed {
	m := wire.Placed{Node: s.cfg.NodeIndex, Host: s.cfg.Node.Host}
	if b := s.cfg.Job.Binding; b.Topo && b.Data {
		data, _ := show.JSON(s.machine) // no error: a machine consists of numbers and strings
		m.Picture = string(data)
	} else if b.Topo {
		m.Picture = show.Picture(s.machine)
	}
	if !s.cfg.Job.Binding.Report {
		return core.Placed{Placed: m}
	}
	var ranks []wire.Placement
	for _, r := range s.ranks {
		p := r.running()
		if p == nil {
			continue
		}
		ranks = append(ranks, placement(s.machine, r, p.Pid()))
	}
	m.Ranks = wire.NewPlacements(ranks...)
	return core.Placed{Placed: m}
}

// placement returns where the process pid of one rank runs, or ran.
func placement(m *topo.Machine, r *rank, pid int) wire.Placement {
	at := wire.Placement{Rank: r.slot, HCA: r.place.port, Policy: r.place.thread.Policy()}
	at.CPUs, at.Mems = statusField(pid, "Cpus_allowed_list"), statusField(pid, "Mems_allowed_list")
	if at.CPUs == "" {
		at.Ended = true
		at.CPUs, at.Mems = r.place.thread.CPUs.String(), m.AllowedMems.String()
		if at.CPUs == "" {
			at.CPUs = m.Allowed.String()
		}
	}
	if cpus, err := cpuset.ParseList(at.CPUs); err == nil {
		at.Drawing = show.Binding(m, cpus)
	}
	return at
}
