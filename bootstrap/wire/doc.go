// Package wire has the messages between agents, and turns them into frames and back. Those that agents relay for
// ranks are in package rankwire; the Vocabulary here includes them. The package is pure. The file schema.txt
// describes the messages of both packages, and files *_gen.go are generated from it.
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
	JoinedTaken  uint8 = iota // the agent of the job has the link
	JoinedNobody              // no agent of the job is there
	JoinedOther               // the agent has another parent, which is nearer to the root
)

// NoInput is the Input of a State if the ranks of the node read no standard input: they are not its first ones.
const NoInput = 1<<32 - 1

// End returns the node after the last one.
func (s NodeSpan) End() job.NodeIndex { return s.First + job.NodeIndex(s.Count) }

// Nodes returns the nodes that have members.
func (m Session) Nodes() NodeSpans {
	return frame.ListOf[NodeSpan, nodeSpanCodec](func(yield func(NodeSpan) bool) {
		for s := range m.Members.All() {
			if !yield(s.Nodes) {
				return
			}
		}
	})
}

// TimingsOf packs the times of nodes, of which there may be many.
func TimingsOf(nodes iter.Seq[job.NodeTimes]) Timings {
	return frame.ListOf[job.NodeTimes, nodeTimesCodec](nodes)
}

// verify refuses nodes that the job does not have, or not with these ranks, and nodes that are named twice or out of
// order.
func (m *Launch) verify() error {
	l, next := m.Job.Layout, job.NodeIndex(0)
	for i, p := range m.Share {
		if i > 0 && p.First <= m.Share[i-1].End() {
			return frame.ErrCanonical
		}
	}
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

// verify refuses parts that are out of order or touch, and a head that is in none of them.
func (m *Below) verify() error {
	next, has := uint64(0), len(m.Parts) == 0
	for i, p := range m.Parts {
		if uint64(p.First) < next || i > 0 && uint64(p.First) == next {
			return frame.ErrCanonical
		}
		next, has = uint64(p.First)+uint64(p.Nodes.Len()), has || m.Head >= p.First && m.Head < p.End()
		if next > job.MaxNodes {
			return frame.ErrRange
		}
	}
	if !has {
		return frame.ErrRange
	}
	return nil
}

func (m *Standing) verify() error { return floorsInOrder(m.Floors, m.Everyone) }
func (m *Enter) verify() error    { return floorsInOrder(m.Floors, 0) }

// floorsInOrder refuses floors that are not in the order of ranks, or not above the floor of all ranks.
func floorsInOrder(floors []RankFloor, everyone uint16) error {
	for i, f := range floors {
		if i > 0 && f.Rank <= floors[i-1].Rank || f.Epoch <= everyone {
			return frame.ErrRange
		}
	}
	return nil
}

// restartEpoch reports whether an epoch is the first of a start that is not a rank's first start.
func restartEpoch(epoch uint16) bool { return job.StartOf(epoch) > 0 && job.ProgramOf(epoch) == 1 }

// blocks returns a check of node blocks.
func blocks() func([]byte) error {
	return func(block []byte) error {
		if len(block) > rankwire.MaxValue {
			return frame.ErrRange
		}
		return nil
	}
}

// nodesInOrder returns a check of a list of spans.
func nodesInOrder() func(NodeSpan) error {
	check := frame.InOrder(job.MaxNodes)
	return func(s NodeSpan) error { return check(uint32(s.First), s.Count) }
}

// endingsInOrder returns a check of runs, each of one rank or more.
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

// membersInOrder returns a check of spans. Those that touch differ in their members.
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
