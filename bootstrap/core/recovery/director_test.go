package recovery

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/core/subtree"
	"ibrun/internal/job"
)

const s = time.Second

// opened returns a Director of a job whose launch is complete.
func opened(p Limit) Director {
	d := newDirector(p)
	d.Opened()
	return d
}

// one returns the span of a single rank.
func one(rank job.Slot) Span { return Span{rank, 1} }

// announce returns the decision that announces a floor for the ranks of span. start is the number of their restarts.
func announce(serial uint32, span Span, start uint8) Decision {
	return Decision{Do: AnnounceFloor, Serial: serial, Span: span, Epoch: job.Epoch(start, 1)}
}

// startOrder returns the decision that starts the ranks of span. start is the number of their restarts.
func startOrder(serial uint32, span Span, start uint8) Decision {
	return Decision{Do: StartRanks, Serial: serial, Span: span, Epoch: job.Epoch(start, 1)}
}

// spanReport returns the decision that reports a restart of exactly the ranks that have failed, which are those of
// span. number is the number of restarts so far.
func spanReport(span Span, number int) Decision {
	return Decision{Do: ReportRestart, Span: span, Of: span, Number: number}
}

// TestSeveralAtOnce lets three ranks fail one after another. Each failure must have its own floor. The confirmation of
// floor 2 must start the ranks of the floors 1 and 2.
func TestSeveralAtOnce(t *testing.T) {
	d := opened(Limit{Most: 9})
	d.Failed(0, one(3), true)
	d.Failed(0, one(5), true)
	d.Failed(0, one(1), true)
	require.Equal(t, []Decision{startOrder(1, one(3), 1), startOrder(2, one(5), 1)}, d.Confirmed(2))
	require.Equal(t, []Decision{{Do: GiveUp, Span: one(5), Of: one(5), Why: "no such file"}},
		d.Respawned(2, one(5), "no such file"))
	require.Equal(t, []Decision{startOrder(3, one(1), 1)}, d.Confirmed(3))
}

// TestWhatIsWaitedFor requires that no floor is announced before the launch is complete, or before all old processes of
// the failed ranks have ended.
func TestWhatIsWaitedFor(t *testing.T) {
	d := newDirector(Limit{Most: 9})
	require.Equal(t, []Decision{spanReport(one(3), 1)}, d.Failed(0, one(3), true))
	require.Empty(t, d.Confirmed(1))
	require.Equal(t, []Decision{announce(1, one(3), 1)}, d.Opened())
	node := Span{4, 2}
	require.Equal(t, []Decision{spanReport(node, 2)}, d.Failed(0, node, false))
	require.Empty(t, d.Failed(0, one(5), true), "rank 5 is restarted with its node")
	require.Equal(t, []Decision{startOrder(1, one(3), 1)}, d.Confirmed(1))
	require.Empty(t, d.Fenced(Span{5, 1}), "rank 4 of the node is not fenced yet")
	require.Equal(t, []Decision{announce(2, node, 1)}, d.Fenced(node))
	require.Equal(t, []Decision{startOrder(2, node, 1)}, d.Confirmed(2))
	require.Empty(t, d.Respawned(2, one(4), ""))
	require.False(t, d.Idle())
	d.Respawned(1, one(3), "")
	d.Respawned(2, one(5), "")
	require.True(t, d.Idle())
}

// TestMostRestarts requires that the job ends at the first failure after the maximum number of restarts. It tests a
// maximum for the whole job and a maximum for each period of 10 s.
func TestMostRestarts(t *testing.T) {
	d := opened(Limit{Most: 1})
	d.Failed(0, one(3), true)
	require.Equal(t, []Decision{{Do: GiveUp, Span: one(4), Of: one(4),
		Why: "after 1 restart, which is the most (--max-restarts)"}},
		d.Failed(1000*s, one(4), true))
	none := opened(Limit{})
	require.Equal(t, GiveUp, none.Failed(0, one(3), true)[0].Do)

	d = opened(Limit{Most: 2, Within: 10 * s})
	for at := range time.Duration(20) {
		d.Confirmed(uint32(at))
		require.Equal(t, ReportRestart, d.Failed(6*at*s, one(3), true)[0].Do, "%v", at)
	}
	d.Confirmed(20)
	require.Equal(t, []Decision{
		{Do: GiveUp, Span: one(3), Of: one(3), Why: "2 restarts in 10s, which is the most (--max-restarts)"},
	}, d.Failed(19*6*s+3*s, one(3), true))
}

// TestMostRestartsOfARank requires that a rank is restarted at most 63 times, because an epoch cannot represent more.
func TestMostRestartsOfARank(t *testing.T) {
	d := opened(Limit{Most: 1000})
	for serial := range uint32(job.MaxStart) {
		require.Equal(t, ReportRestart, d.Failed(0, one(3), true)[0].Do)
		d.Confirmed(serial + 1)
	}
	require.Equal(t, []Decision{{Do: GiveUp, Span: one(3), Of: one(3),
		Why: "after 63 restarts, which is the most of one rank"}},
		d.Failed(0, one(3), true))
	require.Equal(t, ReportRestart, d.Failed(0, one(4), true)[0].Do)
}

// TestFloorIsTakenOnce requires that Take returns true for the first arrival of a floor, and false when the same floor
// arrives again.
func TestFloorIsTakenOnce(t *testing.T) {
	f := NewFloors(&subtree.Subtree{})
	require.True(t, f.Take(1))
	require.False(t, f.Take(1))
}

// TestAllTogether restarts all ranks, and lets a node be lost during the restart. The ranks must start only after
// Recalled, and after Fenced for that node. Failures during the restart must not count as further restarts.
func TestAllTogether(t *testing.T) {
	d := opened(Limit{Most: 2})
	all, node := Span{0, 6}, Span{4, 2}
	d.Failed(0, one(3), true)
	require.Equal(t, []Decision{
		{Do: ReportRestart, Span: all, Of: one(1), Number: 2}, {Do: RecallAll, Serial: 1, Span: all},
	}, d.FailedAll(0, one(1), all, false))
	require.True(t, d.Recalls())
	require.Empty(t, d.Failed(0, one(2), true))
	require.Empty(t, d.FailedAll(0, node, all, true), "a node is lost during the restart")
	require.Empty(t, d.Respawned(1, one(3), ""), "the restart of rank 3 alone is canceled")
	require.Empty(t, d.Recalled(2, ""), "no recall has serial number 2")
	require.Empty(t, d.Recalled(1, ""), "the lost node is not fenced yet")
	require.Equal(t, []Decision{announce(2, all, 2)}, d.Fenced(node), "start number 2 follows that of rank 3")
	require.Equal(t, []Decision{startOrder(2, all, 2)}, d.Confirmed(2))
	require.False(t, d.Recalls())
	require.Empty(t, d.Respawned(2, Span{0, 4}, ""))
	require.False(t, d.Idle())
	require.Empty(t, d.Respawned(2, node, ""))
	require.True(t, d.Idle())
	require.Equal(t, []Decision{
		{Do: GiveUp, Span: all, Of: one(5), Why: "after 2 restarts, which is the most (--max-restarts)"},
	}, d.FailedAll(s, one(5), all, false))
}

// TestAllTogetherInVain requires that the job ends if a recall fails because a process cannot be ended. The recall must
// not be sent before the launch is complete.
func TestAllTogetherInVain(t *testing.T) {
	d := newDirector(Limit{Most: 2})
	all := Span{0, 6}
	require.Equal(t, []Decision{{Do: ReportRestart, Span: all, Of: one(1), Number: 1}}, d.FailedAll(0, one(1), all, false))
	require.Equal(t, []Decision{{Do: RecallAll, Serial: 1, Span: all}}, d.Opened())
	require.Equal(t, []Decision{{Do: GiveUp, Span: all, Of: one(1), Why: "process 7 lives on"}},
		d.Recalled(1, "process 7 lives on"))
}

// TestLossOfANodeMeanwhile requires that the restart of a lost node replaces the restart of one of its ranks. If the
// node is lost again after its floor was announced, a new floor must be announced.
func TestLossOfANodeMeanwhile(t *testing.T) {
	d := opened(Limit{Most: 9})
	node := Span{4, 2}
	d.Failed(0, one(4), true)
	require.Equal(t, []Decision{spanReport(node, 2)}, d.Failed(0, node, false))
	require.Equal(t, []Decision{announce(2, node, 2)}, d.Fenced(node))
	require.Empty(t, d.Failed(0, node, false), "the spare that replaces the node is lost, too")
	require.Empty(t, d.Confirmed(2))
	require.Equal(t, []Decision{announce(3, node, 3)}, d.Fenced(node))
}
