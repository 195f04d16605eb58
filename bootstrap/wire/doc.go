// Package wire contains the messages between agents, encodes them as frames, and decodes them. Messages that agents
// relay for ranks are in package rankwire, but Vocabulary contains their kinds, too. The package performs no I/O. The
// file schema.txt describes the messages of both packages, and the files *_gen.go are generated from it.
package wire

//go:generate go run ibrun/internal/wiregen

import (
	"cmp"
	"iter"
	"slices"

	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// Values of Joined.How.
const (
	JoinedTaken  uint8 = iota // the agent of the job has accepted the link, and its sender is the new parent
	JoinedNobody              // no agent of the job runs on the node, or the agent has not answered
	JoinedOther               // the agent has refused the link: its own parent is nearer to the root than the sender
)

// NoInput is the value of State.Input for an agent that replaces a lost agent. The restarted ranks of such an agent get
// no standard input.
const NoInput = 1<<32 - 1

// End returns the index of the node after the last node of s.
func (s NodeSpan) End() job.NodeIndex { return s.First + job.NodeIndex(s.Count) }

// Nodes returns the spans of nodes on which m starts members.
func (m Session) Nodes() NodeSpans {
	return frame.ListOf[NodeSpan, NodeSpansCodec](func(yield func(NodeSpan) bool) {
		for s := range m.Members.All() {
			if !yield(s.Nodes) {
				return
			}
		}
	})
}

// TimingsOf returns a list of the launch times of nodes. It takes an iterator, so that the caller needs no slice.
func TimingsOf(nodes iter.Seq[job.NodeTimes]) Timings {
	return frame.ListOf[job.NodeTimes, TimingsCodec](nodes)
}

// verify returns an error if Nodes and Share contradict the layout of the job, or if they contain a node twice. It also
// returns an error if the parts of Share are not in ascending order with a gap between neighbours. Nodes and Share
// contradict the layout if they contain a node that is not in it, or give a node another number of ranks.
func (m *Launch) verify() error {
	if err := partsInOrder(m.Share); err != nil {
		return err
	}
	l, next := m.Job.Layout, job.NodeIndex(0)
	parts := slices.Concat(job.Parts{{First: m.First, Nodes: m.Nodes}}, m.Share)
	slices.SortFunc(parts, func(a, b job.Part) int { return cmp.Compare(a.First, b.First) })
	for _, p := range parts {
		if p.First < next || uint64(p.First)+uint64(p.Nodes.Len()) > uint64(l.Nodes()) || !p.Fits(l) {
			return frame.ErrRange
		}
		next = p.End()
	}
	return nil
}

// verify returns an error if Parts are not in ascending order with a gap between neighbours, if they exceed
// job.MaxNodes, or if they do not contain Head. It accepts empty Parts with any Head.
func (m *Below) verify() error {
	hasHead := func(p job.Part) bool { return m.Head >= p.First && m.Head < p.End() }
	if err := partsInOrder(m.Parts); err != nil || len(m.Parts) == 0 || slices.ContainsFunc(m.Parts, hasHead) {
		return err
	}
	return frame.ErrRange
}

// partsInOrder returns an error if parts are not in ascending order with a gap between neighbours, or if they exceed
// job.MaxNodes.
func partsInOrder(parts []job.Part) error {
	check := frame.InOrder(job.MaxNodes)
	for _, p := range parts {
		if err := check(uint32(p.First), uint32(p.Nodes.Len())); err != nil {
			return err
		}
	}
	return nil
}

// verify returns an error if Floors are not in ascending order of ranks, or if an epoch in them is not greater than
// Everyone.
func (m *Standing) verify() error { return floorsInOrder(m.Floors, m.Everyone) }

// verify returns an error if Floors are not in ascending order of ranks, or if an epoch in them is 0.
func (m *Enter) verify() error { return floorsInOrder(m.Floors, 0) }

// floorsInOrder returns an error if floors are not in strictly ascending order of ranks, or if the epoch of one of them
// is not greater than everyone, the floor of all ranks.
func floorsInOrder(floors []RankFloor, everyone uint16) error {
	for i, f := range floors {
		if i > 0 && f.Rank <= floors[i-1].Rank || f.Epoch <= everyone {
			return frame.ErrRange
		}
	}
	return nil
}

// restartEpoch reports whether epoch identifies the first program that a rank has run after a restart.
func restartEpoch(epoch uint16) bool { return job.StartOf(epoch) > 0 && job.ProgramOf(epoch) == 1 }

// areBlocks reports whether each value can be an encoded node block (fabric.Block), which has at most
// rankwire.MaxValue bytes.
func areBlocks(values frame.Values) bool {
	for block := range values.All() {
		if len(block) > rankwire.MaxValue {
			return false
		}
	}
	return true
}

// nodesInOrder returns a function that checks the order of one list of NodeSpans. The function must be called with each
// span in turn.
func nodesInOrder() func(NodeSpan) error {
	check := frame.InOrder(job.MaxNodes)
	return func(s NodeSpan) error { return check(uint32(s.First), s.Count) }
}

// endingsInOrder returns a function that checks the order of one list of Endings. The function must be called with each
// run in turn.
func endingsInOrder() func(job.StatusRun) error {
	next := uint64(0)
	return func(s job.StatusRun) error {
		if s.Count == 0 || uint64(s.First) < next {
			return frame.ErrCanonical
		}
		if next = uint64(s.First) + uint64(s.Count); next > job.MaxRanks {
			return frame.ErrRange
		}
		return nil
	}
}

// membersInOrder returns a function that checks the order of one list of MemberSpans. The function must be called with
// each span in turn.
func membersInOrder() func(MemberSpan) error {
	members, last := uint64(0), MemberSpan{}
	return func(s MemberSpan) error {
		next, end := last.Nodes.End(), uint64(s.Nodes.First)+uint64(s.Nodes.Count)
		members += uint64(s.Nodes.Count) * uint64(s.Each)
		switch {
		case s.Each == 0 || s.Each > MaxMembersOnNode || end > job.MaxNodes || members > MaxMembers:
			return frame.ErrRange
		case s.Nodes.Count == 0, s.Nodes.First < next, s.Nodes.First == next && s.Each == last.Each:
			return frame.ErrCanonical
		}
		last = s
		return nil
	}
}
