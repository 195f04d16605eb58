package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/control"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// asked simulates a job that gets the question q once, when all ranks run. It returns the simulation and the answer. It
// asserts that no edge of the tree carries the question twice, and that each edge that carries it carries one reply.
func asked(t *testing.T, cfg Config, q rankwire.Question) (*World, wire.Reply) {
	t.Helper()
	cfg.Run = 10 * time.Second
	crossed := countCrossings(&cfg, wire.KindQuery, wire.KindReply)
	w := New(cfg)
	w.At(5*time.Second, func() {
		require.Positive(t, w.Ready)
		w.Ask(wire.Query{ID: 7, Question: q})
	})
	w.complete(t, time.Hour)
	require.Len(t, w.Answers, 1)
	require.Equal(t, uint32(7), w.Answers[0].ID)
	requireOnceEach(t, crossed, 2*w.Sent[wire.KindQuery])
	return w, w.Answers[0]
}

// mostAnswer bounds the frame of a status, in bytes, however large the job is.
const mostAnswer = 200

// TestAskMillion asks a job for the status of all ranks. That must cost one message down and one up on each edge of the
// tree, and no further messages. A reply must have less than mostAnswer bytes on average. With the build tag soak the
// job has 1,048,576 ranks.
func TestAskMillion(t *testing.T) {
	const ppn = 64
	cfg := plan(scale.nodes, ppn, "kary:8")
	question := rankwire.Question{What: rankwire.LookAtRanks, PatienceMs: 10_000}
	w, reply := asked(t, cfg, question)
	n := scale.nodes
	require.Equal(t, map[frame.Kind]int{wire.KindQuery: n, wire.KindReply: n, wire.KindLaunch: n, wire.KindReady: n,
		wire.KindExit: n}, withoutHeartbeats(w.Sent))
	require.Less(t, w.Bytes[wire.KindReply], uint64(mostAnswer*scale.nodes))

	s := control.StandingOf(cfg.Job.Layout, reply.Standings)
	require.Equal(t, uint32(scale.nodes), s.Nodes)
	require.Zero(t, s.Silent)
	require.Len(t, s.Groups, 1)
	require.Equal(t, uint32(scale.nodes*ppn), s.Groups[0].Count)
	require.Equal(t, "runs", s.Groups[0].State)
}

// Rows are cut to what was asked for, and counted; ranks that are asked by their numbers cost
// messages on the way to them only.
func TestAskSomeRanks(t *testing.T) {
	cfg := plan(64, 4, "kary:2")
	w, reply := asked(t, cfg, rankwire.Question{What: rankwire.LookAtRanks, Rows: 10, PatienceMs: 10_000})
	require.Equal(t, 64, w.Sent[wire.KindQuery])
	require.Equal(t, 10, reply.Rows.Len())
	require.Equal(t, uint32(246), reply.More)
	require.Equal(t, job.Slot(0), slices.Collect(reply.Rows.All())[0].Rank)

	one := rankwire.NewSlotSpans(rankwire.SlotSpan{First: 255, Count: 1})
	w, reply = asked(t, cfg, rankwire.Question{What: rankwire.LookAtRanks, Rows: 10, PatienceMs: 10_000,
		Ranks: one})
	require.LessOrEqual(t, w.Sent[wire.KindQuery], 7)
	require.Equal(t, 1, reply.Rows.Len())
	require.Equal(t, "node000064", slices.Collect(reply.Rows.All())[0].Host)
}

// stuck lets all ranks of a job but one enter a barrier, and asks it then.
func stuck(t *testing.T, cfg Config, missing uint32, then func(w *World)) *World {
	cfg.Silent = func(uint32) bool { return true }
	w := New(cfg)
	w.At(time.Second, func() {
		for node := range cfg.Job.Nodes {
			first, count := cfg.Job.Layout.SlotsOn(job.NodeIndex(node))
			for rank := uint32(first); rank < uint32(first)+count; rank++ {
				w.FromRank(node, rank, rankwire.Hello{})
				if rank != missing {
					w.FromRank(node, rank, rankwire.Collect{Op: 1, What: rankwire.Barrier})
				}
			}
		}
	})
	w.At(5*time.Second, func() { then(w) })
	require.NoError(t, w.Run(time.Minute))
	return w
}

// The one rank of 256 that does not enter its barrier is named, with its node.
func TestAskWhoIsMissing(t *testing.T) {
	for _, shape := range []string{"flat", "chain", "kary:2", "kary:8"} {
		cfg := plan(16, 16, shape)
		w := stuck(t, cfg, 17, func(w *World) {
			w.Ask(wire.Query{ID: 1, Question: rankwire.Question{What: rankwire.LookAtRanks, Rows: 16,
				PatienceMs: 10_000}})
			w.At(w.Now()+time.Second, func() { w.Interrupt(15) })
		})
		require.Len(t, w.Answers, 1)
		s := control.StandingOf(cfg.Job.Layout, w.Answers[0].Standings)
		require.Equal(t, []string{"Barrier 1: 255 ranks have waited for 4.0 s; missing: rank 17 on node000002 " +
			"(process 18, in poll)"}, s.Collectives(), shape)
		require.Equal(t, "0-16,18-255", s.Groups[0].Ranks)
	}
}

// A node that does not answer holds up the answer for no longer than the patience, and is counted.
func TestAskMuteNode(t *testing.T) {
	cfg := plan(64, 2, "kary:2")
	cfg.Mute = func(node uint32) bool { return node == 63 }
	_, reply := asked(t, cfg, rankwire.Question{What: rankwire.LookAtRanks, PatienceMs: 2000})
	require.Equal(t, uint32(63), reply.Nodes)
	require.Equal(t, uint32(1), reply.Silent)
	total := uint32(0)
	for g := range reply.Groups.All() {
		total += g.Count
	}
	require.Equal(t, uint32(126), total)
}
