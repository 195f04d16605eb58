// Package subtree is what an agent knows of its part of the launch tree: the ranks of its own node
// with the program that each runs, its children, and which child has which ranks. The core changes
// it; look-ups, collectives and bulk fetches read it, as quorum reads tracker in a consensus core.
// It sends nothing, and it does not know how children are launched or why they end.
package subtree

import (
	"cmp"
	"slices"
	"sort"

	"ibrun/internal/job"
)

// Link names one neighbour: Up is the parent, 0 and above are the children in launch order.
type Link int

// Up is the link to the parent.
const Up Link = -1

// Subtree is one agent's. The zero value is an agent that is being launched.
type Subtree struct {
	Root     bool       // of the whole tree: it has no parent and covers all ranks
	Launched bool       // no child is added any more
	Layout   job.Layout // of the whole job
	Own      Ranks
	Floors   Floors
	children []child
	owners   []owner // in order of their ranks
	routed   bool
}

type child struct {
	ended, exited bool
	resting       bool
	parts         job.Parts
}

// owner is a child and a stretch of ranks of its subtree.
type owner struct {
	first job.Slot
	count uint32
	link  Link
}

// Adopt adds a child.
func (s *Subtree) Adopt() { s.children = append(s.children, child{}) }

// Children is how many there are, those that have ended included.
func (s *Subtree) Children() int { return len(s.children) }

// End records that a child has ended; exited: it reported how its ranks ended.
func (s *Subtree) End(l Link, exited bool) { s.children[l].ended, s.children[l].exited = true, exited }

// Rest records whether nothing of a child's subtree runs; the child has not ended.
func (s *Subtree) Rest(l Link, rests bool) { s.children[l].resting = rests }

// Resting reports whether nothing of a child's subtree runs.
func (s *Subtree) Resting(l Link) bool { return s.children[l].resting }

// Ended reports whether a child has.
func (s *Subtree) Ended(l Link) bool { return s.children[l].ended }

// Route records which child has which nodes, when that is certain, and again when they are
// numbered anew.
func (s *Subtree) Route(parts func(Link) job.Parts) {
	s.owners, s.routed = make([]owner, 0, len(s.children)), true
	for i := range s.children {
		s.children[i].parts = parts(Link(i))
		for _, p := range s.children[i].parts {
			s.owners = append(s.owners, owner{p.Nodes.Base(), p.Nodes.Ranks(), Link(i)})
		}
	}
	slices.SortFunc(s.owners, func(a, b owner) int { return cmp.Compare(a.first, b.first) })
}

// Routed reports whether Route was called.
func (s *Subtree) Routed() bool { return s.routed }

// Parts are the nodes of a child's subtree, after Route.
func (s *Subtree) Parts(l Link) job.Parts { return s.children[l].parts }

// Child finds the child that has a rank; false: none has it.
func (s *Subtree) Child(rank job.Slot) (Link, bool) {
	i := sort.Search(len(s.owners), func(i int) bool { return s.owners[i].first > rank }) - 1
	if i < 0 || uint32(rank-s.owners[i].first) >= s.owners[i].count {
		return 0, false
	}
	return s.owners[i].link, true
}

// Covers reports whether a rank is of this subtree, after Route.
func (s *Subtree) Covers(rank job.Slot) bool {
	_, below := s.Child(rank)
	return s.Root || s.Own.Has(rank) || below
}

// Towards is the link that leads to the agent of a rank of another node; false: none does, since
// the child that had it has ended, or, with Up, its node was never started.
func (s *Subtree) Towards(rank job.Slot) (Link, bool) {
	l, below := s.Child(rank)
	if !below {
		return Up, !s.Root
	}
	return l, !s.children[l].ended
}

// Exited reports whether a child has ended and reported how its ranks ended.
func (s *Subtree) Exited(l Link) bool { return s.children[l].exited }
