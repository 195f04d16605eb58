package core

import (
	"cmp"
	"slices"
	"time"

	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// failures are the ranks that have failed in a job that goes on nevertheless
// (job.Launch.KeepGoing). What comes soon after a frame goes with the next one: an
// edge carries one frame each way for a failure, and no more for many at once.
//
//	failed --up, merged--> at the root --down, merged--> known to each agent, told to its ranks
type failures struct {
	known rankwire.SlotSpans // told to this node's ranks
	fresh rankwire.SlotSpans // to be sent: up, or at the root down; in any order
	next  time.Duration
}

// failurePause is the least time between two frames of failures that one agent begins.
const failurePause = 50 * time.Millisecond

// excuseRank lets the job go on without a rank, which is not started again: its program has said, by
// PMIx, that it can. The others get an event.
func (c *Core) excuseRank(rank job.Slot, f wire.Fault) {
	f.Awaited, f.Excused = false, true
	c.failures.fresh.Add(oneSpan(rank, 1))
	c.rankOver(rank, true)
	c.fault(f)
}

// spreadFailures sends what is known here only. Children may be missing while the
// subtree is launched.
func (c *Core) spreadFailures() {
	f := &c.failures
	switch {
	case f.fresh.Len() == 0 || c.stage != running:
		return
	case c.now < f.next:
		c.wakeAt(f.next)
		return
	}
	c.sendFailures()
}

// sendFailures sends it at once.
func (c *Core) sendFailures() {
	f := &c.failures
	if f.fresh.Len() == 0 {
		return
	}
	m := rankwire.Failures{Ranks: inOrder(f.fresh)}
	f.fresh, f.next = rankwire.SlotSpans{}, c.now+failurePause
	if c.cfg.Root {
		c.lostForGood(m.Ranks)
		c.failed(m)
		return
	}
	c.send(Up, m)
}

// failed takes failures from the parent, or at the root from its subtrees, and
// passes them on.
func (c *Core) failed(m rankwire.Failures) {
	f := &c.failures
	if m = c.newFailures(m); m.Ranks.Len() == 0 {
		return
	}
	f.known = inOrder(f.known.Join(m.Ranks))
	c.dropPlaces(m.Ranks)
	c.sendDown(m)
	c.sendRanks(m)
}

// inOrder is a list in order, with stretches that touch made one. It has memory of
// its own.
func inOrder(list rankwire.SlotSpans) rankwire.SlotSpans {
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
