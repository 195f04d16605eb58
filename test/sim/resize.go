package sim

import (
	"ibrun/bootstrap/core"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// Resize delivers a caller's request to change the size of the job to the root, at the present time.
func (w *World) Resize(ev core.ResizeAsked) { w.deliver(event{to: w.root, ev: ev}) }

// Leave ends the ranks of the nodes [first, end) at once, with exit code 0.
func (w *World) Leave(first, end int) {
	for node := uint32(first); node < uint32(end); node++ {
		a := w.agents[node]
		for i := range a.rank.Ranks {
			w.FromRank(node, uint32(a.rank.First)+i, rankwire.Finalize{})
		}
		w.end(a, job.Status{})
	}
}

// nodeOf is the number of a node, also of one that comes to a running job, whose nodes have as many
// ranks as all others.
func (w *World) nodeOf(n job.Node) uint32 {
	if at := w.cfg.Nodes.NodeOf(n.First); at >= 0 {
		return uint32(at)
	}
	return uint32(w.cfg.Nodes.Len()) + (uint32(n.First)-w.cfg.Nodes.Ranks())/n.Ranks
}
