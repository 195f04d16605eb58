package recovery

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"ibrun/bootstrap/core/subtree"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// losses records the ranks that have failed and are not restarted, in a job that continues without them. An agent sends
// the losses of its subtree to its parent in Failures messages. The root announces them to all agents in Failures
// messages. After each message, an agent collects losses for lossPause, so that one message can report many losses.
type losses struct {
	known rankwire.SlotSpans // losses that the root has announced
	fresh rankwire.SlotSpans // losses of this subtree that this agent has not sent or announced yet, in any order
	next  time.Duration      // earliest time of the next message
}

// lossPause is the minimum time between two Failures messages that an agent sends to its parent, or announces at the
// root.
const lossPause = 50 * time.Millisecond

// spreadLosses calls sendLosses if the job runs and lossPause has passed since the last message.
func (m *Machine) spreadLosses() {
	switch l := &m.losses; {
	case l.fresh.Len() == 0 || m.period != alive:
	case m.now < l.next:
		m.do(Wake{l.next})
	default:
		m.sendLosses()
	}
}

// sendLosses sends the losses in fresh to the parent, even if lossPause has not passed. At the root, it announces them
// to all agents and cancels the restarts of these ranks.
func (m *Machine) sendLosses() {
	l := &m.losses
	if l.fresh.Len() == 0 {
		return
	}
	ranks := Merged(l.fresh)
	l.fresh, l.next = rankwire.SlotSpans{}, m.now+lossPause
	if !m.below.Root {
		m.send(subtree.Up, rankwire.Failures{Ranks: ranks})
		return
	}
	for s := range ranks.All() {
		m.root.director.Lost(Span(s))
	}
	maps.DeleteFunc(m.root.places, func(_ job.NodeIndex, p *place) bool { return Covers(ranks, p.span.First) })
	m.learn(ranks)
}

// learn records losses that the root has announced, and sends them to the children and to the ranks of this node. In a
// job that repairs its tree, it ignores losses that are known already, because a new parent repeats them.
func (m *Machine) learn(ranks rankwire.SlotSpans) {
	l := &m.losses
	if m.policy.Agent == Continue {
		if ranks = l.without(ranks); ranks.Len() == 0 {
			return
		}
	}
	l.known = Merged(l.known.Join(ranks))
	m.do(GiveUpPlaces{ranks})
	m.do(SendDown{rankwire.Failures{Ranks: ranks}})
	m.do(SendRanks{rankwire.Failures{Ranks: ranks}})
}

// without returns the given ranks without those in l.known.
func (l *losses) without(ranks rankwire.SlotSpans) rankwire.SlotSpans {
	known := slices.Collect(l.known.All())
	var fresh []rankwire.SlotSpan
	for s := range ranks.All() {
		for first := s.First; first < s.End(); {
			end := s.End()
			for _, k := range known {
				switch {
				case k.First <= first && first < k.End():
					first = k.End()
				case k.First > first:
					end = min(end, k.First)
				}
			}
			if first < end {
				fresh = append(fresh, rankwire.SlotSpan{First: first, Count: uint32(end - first)})
			}
			first = max(first, end)
		}
	}
	return rankwire.NewSlotSpans(fresh...)
}

// Lost returns the ranks that the root has announced as lost for good.
func (m *Machine) Lost() rankwire.SlotSpans { return m.losses.known }

// Losing returns the ranks of this subtree that are lost for good, but which this agent has not reported to its parent
// yet. At the root, it returns those that are not announced yet.
func (m *Machine) Losing() rankwire.SlotSpans { return m.losses.fresh }

// Merged returns the spans of list in ascending order. Adjacent and overlapping spans are merged. The result does not
// share memory with list.
func Merged(list rankwire.SlotSpans) rankwire.SlotSpans {
	var sum []rankwire.SlotSpan
	sorted := slices.SortedFunc(list.All(), func(a, b rankwire.SlotSpan) int { return cmp.Compare(a.First, b.First) })
	for _, s := range sorted {
		if last := len(sum) - 1; last >= 0 && s.First <= sum[last].End() {
			sum[last].Count = max(sum[last].Count, uint32(s.First-sum[last].First)+s.Count)
			continue
		}
		sum = append(sum, s)
	}
	return rankwire.NewSlotSpans(sum...)
}

// Covers reports whether a rank is in one of the spans.
func Covers(spans rankwire.SlotSpans, rank job.Slot) bool {
	for s := range spans.All() {
		if s.First <= rank && rank < s.End() {
			return true
		}
	}
	return false
}

func (l *losses) add(ranks Span) { l.fresh.Add(rankwire.NewSlotSpans(rankwire.SlotSpan(ranks))) }
