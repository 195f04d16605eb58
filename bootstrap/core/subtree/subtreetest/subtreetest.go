// Package subtreetest makes subtrees for the tests of those that read them. It is of no use in a
// program.
package subtreetest

import (
	"ibrun/bootstrap/core/subtree"
	"ibrun/internal/job"
)

// Agent is that of the third of six nodes with two ranks each: ranks 4 and 5 are its own, 6 and 7
// its first child's, 8 and 9 its second one's. The root has the same children and no ranks.
func Agent(root bool) *subtree.Subtree {
	nodes := job.NewNodes(0, []job.Run{{Prefix: "n", Width: 1, Count: 6, Ranks: 2}})
	s := &subtree.Subtree{Root: root, Launched: true, Layout: nodes.Layout()}
	if !root {
		s.Own.Open(4, 2)
	}
	s.Adopt()
	s.Adopt()
	s.Route(func(l subtree.Link) job.Parts {
		return job.Parts{{First: job.NodeIndex(3 + l), Nodes: nodes.Slice(3+int(l), 4+int(l))}}
	})
	return s
}
