package plan

import (
	"cmp"
	"fmt"

	"ibrun/cmd/ibrun/internal/cli"
	"ibrun/internal/exit"
	"ibrun/internal/job"
	"ibrun/internal/plain"
	"ibrun/topo"
)

// place gives ranks to nodes and programs.
func (p *Plan) place(r *cli.Request, from allocation, at Surroundings) error {
	want := job.Want{Offset: r.Offset, PerNode: r.PerNode, Plane: r.Plane, Weight: at.Weights}
	if r.Evenly {
		want.Plane = max(want.Plane, 1)
	}
	several := len(r.Segments) > 1
	for i := range r.Segments {
		s := &r.Segments[i]
		if several && s.Ranks == 0 {
			s.Ranks = 1
		}
		want.Ranks += s.Ranks
	}
	if v, ok := job.LookupVariable(at.Env, "IBRUN_TASKS_PER_NODE"); ok && want.PerNode == 0 {
		if err := cli.SetCount(&want.PerNode, v, job.MaxRanks); err != nil {
			return exit.Usagef("IBRUN_TASKS_PER_NODE: %v", err)
		}
	}
	if err := p.goByObjects(r, &want, at); err != nil {
		return err
	}
	if r.Offset > 0 && want.Ranks == 0 {
		return exit.Usagef("option -o is the offset of the TACC wrapper and goes with -n")
	}
	asked(r, from, &want, several)
	over, err := p.spreadBy(r, from, want)
	if err != nil {
		return exit.With(exit.Usage, err)
	}
	if over && !r.Oversubscribe {
		p.Warn(fmt.Sprintf("%d ranks on %d slots: the nodes are oversubscribed", p.Nodes.Ranks(), from.all.Slots()))
	}
	return nil
}

// asked takes over the number of ranks that the user has asked the manager for, if there are more
// slots: each node then gets a rank before nodes are filled, as from the manager's own starter.
func asked(r *cli.Request, from allocation, want *job.Want, several bool) {
	if from.given == nil || r.Everywhere().Named() || several || want.Ranks+want.PerNode > 0 || want.Weight != nil ||
		from.places != nil || r.Nodes.Least+r.NodesOrPerNode.Least > 0 {
		return
	}
	if n := uint64(from.given.Ranks); n < from.all.Slots() {
		want.Ranks, want.Each = n, true
	}
}

// spreadBy gives ranks to nodes, by whatever says how.
func (p *Plan) spreadBy(r *cli.Request, from allocation, want job.Want) (over bool, err error) {
	switch {
	case from.places != nil:
		return false, p.spreadRanks(r, from, want.Ranks)
	case r.NodesOrPerNode.Least > 0:
		return p.spreadN(r, from, want)
	case r.Nodes.Least > 0:
		list, err := p.chosen(r.Nodes, from.lists[0], &want)
		if err != nil {
			return false, fmt.Errorf("--nodes %d: %w", r.Nodes.Least, err)
		}
		from.lists = []job.Nodes{list}
	}
	return p.spread(r, from, want)
}

// spread gives ranks to nodes: all programs to one list, or each to its own.
func (p *Plan) spread(r *cli.Request, from allocation, want job.Want) (over bool, err error) {
	if len(from.lists) == 1 {
		p.Nodes, over, err = job.Place(from.lists[0], want)
		p.layout = p.Nodes.Layout().Dealt(p.plane)
		return over, err
	}
	var groups []job.Group
	for i, s := range r.Segments {
		groups = append(groups, job.Group{Alloc: from.lists[i], Ranks: s.Ranks})
	}
	p.Nodes, p.layout, over, err = job.PlaceEach(groups, want, p.plane)
	return over, err
}

// roomy obeys --nooversubscribe. Without hosts, this machine has as many slots as it allows cores.
func (p *Plan) roomy(r *cli.Request, local bool, at Surroundings) error {
	n, crowded := p.Nodes.Crowded()
	if !r.NoOversubscribe || !crowded {
		return nil
	}
	slots := max(n.Slots, 1)
	if local {
		m, err := at.Machine(r.TopoInput)
		if err != nil {
			return err
		}
		if slots = m.AllowedCores(); n.Ranks <= slots {
			return nil
		}
	}
	return exit.Usagef("%s would get %s on %s, which --nooversubscribe forbids; hint: name more hosts, or more "+
		"slots: --hosts %s:%d",
		n.Host, plain.Plural(int(n.Ranks), "rank"), plain.Plural(int(slots), "slot"), n.Host, n.Ranks)
}

// goByObjects does what goes by the objects of a node, of which the root knows only what this
// machine is like: ranks per node of ppr, and the turns of --rank-by span.
func (p *Plan) goByObjects(r *cli.Request, want *job.Want, at Surroundings) error {
	ppr := r.Binding.PerObj > 0 && want.PerNode == 0
	p.plane = uint32(r.Plane)
	if r.Numbering.Set {
		p.plane = uint32(r.Numbering.Plane)
	}
	if !ppr && !r.Numbering.Span {
		return nil
	}
	m, err := at.Machine(r.TopoInput)
	if err != nil {
		return err
	}
	objects := len(m.Objects(kinds[r.Binding.Map]))
	have := fmt.Sprintf("%s has %s", cmp.Or(r.TopoInput, "this machine"), plain.Plural(objects, r.Binding.Map.String()))
	if ppr {
		want.PerNode = uint64(r.Binding.PerObj) * uint64(objects)
		p.Warn(fmt.Sprintf("ppr: %d ranks per node, since %s; nodes that differ will refuse: -ppn says another number",
			want.PerNode, have))
	}
	if r.Numbering.Span {
		p.plane = uint32(objects)
		p.Warn(fmt.Sprintf("--rank-by span: nodes take turns of %s, since %s; nodes that differ are numbered alike",
			plain.Plural(objects, "rank"), have))
	}
	return nil
}

// kinds are what objects of a command line are called in a machine.
var kinds = map[job.Object]topo.Kind{
	job.HWThread: topo.PU, job.Core: topo.Core, job.L3: topo.L3, job.NUMA: topo.NUMA, job.Package: topo.Package,
}

// Narrow says if this machine's ranks are crowded because whoever started ibrun
// left it few of the CPUs: a resource manager's step does that easily.
func Narrow(m *topo.Machine, ranks int) string {
	if ranks <= m.Allowed.Len() || m.Allowed.Len() == m.Online.Len() {
		return ""
	}
	return fmt.Sprintf("this process may use CPUs %v of %v here, as whoever started it left it: %s share them "+
		"unbound; start ibrun with all CPUs of the allocation (srun: --cpu-bind=none, -c)",
		m.Allowed, m.Online, plain.Plural(ranks, "rank"))
}
