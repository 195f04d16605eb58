package main

import (
	"fmt"
	"slices"

	"ibrun/internal/environ"
	"ibrun/internal/exit"
	"ibrun/internal/hostlist"
	"ibrun/internal/plain"
	"ibrun/internal/plural"
	"ibrun/internal/rankfile"
	"ibrun/internal/textfile"
	"ibrun/job"
)

// hostList is hosts as they were named: in place, or in files.
type hostList struct {
	entries []hostlist.Entry
	files   []string
}

func (h hostList) named() bool { return len(h.entries)+len(h.files) > 0 }

// and is both lists.
func (h hostList) and(other hostList) hostList {
	return hostList{slices.Concat(h.entries, other.entries), slices.Concat(h.files, other.files)}
}

// nodes reads the files and joins what names the same host.
func (h hostList) nodes() (job.Nodes, error) {
	entries := slices.Clone(h.entries)
	for _, name := range h.files {
		content, err := textfile.Read(name)
		if err != nil {
			return job.Nodes{}, exit.Usagef("host file %v", err)
		}
		more, err := hostlist.File(name, content)
		if err != nil {
			return job.Nodes{}, exit.With(exit.Usage, err)
		}
		entries = append(entries, more...)
	}
	var runs []job.Run
	total := uint64(0)
	for _, e := range entries {
		total += uint64(e.Count)
		runs = append(runs, job.Run{
			Prefix: e.Prefix, Suffix: e.Suffix, Width: uint8(e.Width), Lo: e.Lo, Count: e.Count, User: e.User, HCA: e.HCA, Slots: e.Slots,
		})
	}
	if total > job.MaxNodes {
		return job.Nodes{}, exit.Usagef("%d hosts: at most %d are possible", total, job.MaxNodes)
	}
	return job.NewNodes(0, runs).Unique(), nil
}

// shareHosts settles which hosts each program is for. One list is for the whole job, wherever it
// stands; of several, each is for its program, and what stands before a -configfile is for those
// programs of the file that have none.
func (r *request) shareHosts() error {
	var own []*segment
	for i := range r.segments {
		if r.segments[i].hosts.named() {
			own = append(own, &r.segments[i])
		}
	}
	if !r.hosts.named() && len(own) == 1 {
		r.hosts, own[0].hosts = own[0].hosts, hostList{}
		return nil
	}
	for i := range r.segments {
		s := &r.segments[i]
		switch {
		case len(own) == 0 || s.hosts.named():
		case r.hosts.named():
			s.hosts = r.hosts
		default:
			return exit.Usagef("program %d (%s) has no hosts, and others have hosts of their own: write --hosts for each, or one list for all", i, plain.Text(s.argv[0]))
		}
	}
	if len(own) > 0 {
		r.hosts = hostList{}
	}
	return nil
}

// everywhere is all hosts of all programs.
func (r *request) everywhere() hostList {
	all := r.hosts
	for _, s := range r.segments {
		all = all.and(s.hosts)
	}
	return all
}

// allocation is the nodes that ranks may be placed on.
type allocation struct {
	lists []job.Nodes // one for all programs, or one for each
	all   job.Nodes   // each host once
	local bool        // this machine, since no host was named

	places []rankfile.Entry // of a rank file
}

// allocation reads the hosts of a request.
func (r *request) allocation(at surroundings) (from allocation, err error) {
	lists := []hostList{r.hosts}
	if from.places, lists[0], err = r.readRanks(); err != nil {
		return from, err
	}
	if !lists[0].named() && r.everywhere().named() {
		lists = nil
		for _, s := range r.segments {
			lists = append(lists, s.hosts)
		}
	}
	if !lists[0].named() {
		if err := r.unread(at.env); err != nil {
			return from, err
		}
		here := job.NewNodes(0, []job.Run{{Prefix: at.host, Count: 1}})
		return allocation{lists: []job.Nodes{here}, all: here, local: true}, nil
	}
	for _, list := range lists {
		n, err := list.nodes()
		if err != nil {
			return from, err
		}
		from.lists = append(from.lists, n)
	}
	from.all = job.Union(from.lists)
	return from, nil
}

// place gives ranks to nodes and programs.
func (p *plan) place(r *request, from allocation, at surroundings) error {
	p.job = &job.Job{}
	want := job.Want{Offset: r.offset, PerNode: r.perNode, Plane: r.plane, Weight: r.weights}
	if r.span {
		want.Plane = max(want.Plane, 1)
	}
	several := len(r.segments) > 1
	for i := range r.segments {
		s := &r.segments[i]
		if several && s.ranks == 0 {
			s.ranks = 1
		}
		want.Ranks += s.ranks
	}
	if v, ok := environ.Lookup(at.env, "IBRUN_TASKS_PER_NODE"); ok && want.PerNode == 0 {
		if err := count(&want.PerNode, v, job.MaxRanks); err != nil {
			return exit.Usagef("IBRUN_TASKS_PER_NODE: %v", err)
		}
	}
	if err := p.goByObjects(r, &want); err != nil {
		return err
	}
	if r.offset > 0 && want.Ranks == 0 {
		return exit.Usagef("option -o is the offset of the TACC wrapper and goes with -n")
	}
	over, err := p.spreadBy(r, from, want)
	if err != nil {
		return exit.With(exit.Usage, err)
	}
	if over && !r.crowd {
		p.warn(fmt.Sprintf("%d ranks on %d slots: the nodes are oversubscribed", p.nodes.Ranks(), from.all.Slots()))
	}
	p.job.Size = p.nodes.Ranks()
	return nil
}

// spreadBy gives ranks to nodes, by whatever says how.
func (p *plan) spreadBy(r *request, from allocation, want job.Want) (over bool, err error) {
	switch {
	case from.places != nil:
		return false, p.spreadRanks(r, from, want.Ranks)
	case r.either.least > 0:
		return p.spreadN(r, from, want)
	case r.nodes.least > 0:
		list, err := p.chosen(r.nodes, from.lists[0], &want)
		if err != nil {
			return false, fmt.Errorf("--nodes %d: %w", r.nodes.least, err)
		}
		from.lists = []job.Nodes{list}
	}
	return p.spread(r, from, want)
}

// spread gives ranks to nodes: all programs to one list, or each to its own.
func (p *plan) spread(r *request, from allocation, want job.Want) (over bool, err error) {
	if len(from.lists) == 1 {
		p.nodes, over, err = job.Place(from.lists[0], want)
		p.layout = p.nodes.Layout().Dealt(p.plane)
		return over, err
	}
	var groups []job.Group
	for i, s := range r.segments {
		groups = append(groups, job.Group{Alloc: from.lists[i], Ranks: s.ranks})
	}
	p.nodes, p.layout, over, err = job.PlaceEach(groups, want, p.plane)
	return over, err
}

// roomy obeys --nooversubscribe. Without hosts, this machine has as many slots as it allows cores.
func (p *plan) roomy(r *request, local bool) error {
	n, crowded := p.nodes.Crowded()
	if !r.strict || !crowded {
		return nil
	}
	slots := max(n.Slots, 1)
	if local {
		m, err := r.machine()
		if err != nil {
			return err
		}
		if slots = allowedCores(m); n.Ranks <= slots {
			return nil
		}
	}
	return exit.Usagef("%s would get %s on %s, which --nooversubscribe forbids; hint: name more hosts, or more slots: --hosts %s:%d",
		n.Host, plural.Of(int(n.Ranks), "rank"), plural.Of(int(slots), "slot"), n.Host, n.Ranks)
}

// goByObjects does what goes by the objects of a node, of which the root knows only what this
// machine is like: ranks per node of ppr, and the turns of --rank-by span.
func (p *plan) goByObjects(r *request, want *job.Want) error {
	ppr := r.binding.PerObj > 0 && want.PerNode == 0
	p.plane = uint32(r.plane)
	if r.number.said {
		p.plane = uint32(r.number.plane)
	}
	if !ppr && !r.number.span {
		return nil
	}
	m, err := r.machine()
	if err != nil {
		return err
	}
	objects := len(m.Objects(kinds[r.binding.Map]))
	have := fmt.Sprintf("%s has %s", r.example(), plural.Of(objects, r.binding.Map.String()))
	if ppr {
		want.PerNode = uint64(r.binding.PerObj) * uint64(objects)
		p.warn(fmt.Sprintf("ppr: %d ranks per node, since %s; nodes that differ will refuse: -ppn says another number", want.PerNode, have))
	}
	if r.number.span {
		p.plane = uint32(objects)
		p.warn(fmt.Sprintf("--rank-by span: nodes take turns of %s, since %s; nodes that differ are numbered alike", plural.Of(objects, "rank"), have))
	}
	return nil
}
