package plan

import (
	"errors"
	"fmt"
	"slices"

	"ibrun/cmd/ibrun/internal/cli"
	"ibrun/internal/job"
	"ibrun/internal/plain"
)

// chosen obeys --nodes on a list: the first nodes of it. Fewer ranks than nodes leave nodes out, as
// with srun.
func (p *Plan) chosen(n cli.NodeSpan, list job.Nodes, want *job.Want) (job.Nodes, error) {
	have := uint64(list.Len())
	if have < n.Least {
		return list, fmt.Errorf("the list has %s", plain.Plural(list.Len(), "host"))
	}
	use := min(have, n.Most)
	switch {
	case want.Ranks == 0 && want.PerNode == 0:
		want.Ranks = use
	case want.Ranks > 0 && want.Ranks < use:
		use = want.Ranks
	}
	want.Each = true
	return list.Slice(0, int(use)), nil
}

// spreadN obeys -N, which is a number of nodes to srun and of ranks per node to mpirun: it is taken
// where only one of the two can be meant, with a word about it, or where both come to the same.
func (p *Plan) spreadN(r *cli.Request, from allocation, want job.Want) (over bool, err error) {
	n := r.NodesOrPerNode.Least
	nodes, over1, noNodes := p.asNodes(r, from, want)
	perNode, over2, noPerNode := p.asPerNode(r, from, want)
	switch {
	case noNodes != nil && noPerNode != nil:
		return false, fmt.Errorf(
			"-N %d: it can be neither nodes, as in srun (%v), nor ranks per node, as in mpirun (%v)",
			n, noNodes, noPerNode)
	case noNodes != nil:
		p.Warn(fmt.Sprintf("-N %d: %s, so it is ranks per node, as in mpirun", n, noNodes))
		nodes, over1 = perNode, over2
	case noPerNode != nil:
		p.Warn(fmt.Sprintf("-N %d: %s, so it is nodes, as in srun", n, noPerNode))
	case !slices.Equal(nodes.Nodes.Runs(), perNode.Nodes.Runs()):
		return false, fmt.Errorf("-N %d is nodes to srun and ranks per node to mpirun, which differ here; hint: "+
			"write --nodes %d or -ppn %d", n, n, n)
	}
	p.Nodes, p.layout = nodes.Nodes, nodes.layout
	return over1, nil
}

// asNodes is a placement with -N as srun has it, or why it cannot be that.
func (p *Plan) asNodes(r *cli.Request, from allocation, want job.Want) (as Plan, over bool, why error) {
	if len(from.lists) > 1 {
		return as, false, errors.New("programs have lists of their own")
	}
	list, err := p.chosen(r.NodesOrPerNode, from.lists[0], &want)
	if err != nil {
		return as, false, err
	}
	as.plane = p.plane
	over, err = as.spread(r, allocation{lists: []job.Nodes{list}}, want)
	return as, over, err
}

// asPerNode is a placement with -N as mpirun has it, or why it cannot be that.
func (p *Plan) asPerNode(r *cli.Request, from allocation, want job.Want) (as Plan, over bool, why error) {
	n := r.NodesOrPerNode
	switch {
	case n.Most != n.Least:
		return as, false, fmt.Errorf("%d-%d is a range", n.Least, n.Most)
	case want.PerNode != 0 && want.PerNode != n.Least:
		return as, false, fmt.Errorf("%d ranks per node are asked for besides", want.PerNode)
	case want.Ranks > n.Least*uint64(from.all.Len()):
		return as, false, fmt.Errorf("%s would be more than %d on each of %s", plain.Plural(int(want.Ranks), "rank"),
			n.Least, plain.Plural(from.all.Len(), "node"))
	}
	want.PerNode = n.Least
	as.plane = p.plane
	over, why = as.spread(r, from, want)
	return as, over, why
}
