package core

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/fabric"
	"ibrun/internal/job"
	"ibrun/test/fuzzed"
)

// FuzzNeighbors lets one neighbour of an agent lie in a job of real cores: a
// child, a parent or a rank. Whatever it says nobody crashes, takes much more
// memory than what was received, has much to do because of one message, or sends
// what its receiver must refuse; nobody else is taken for a liar; what is said of
// others is true; and when the job is told to end, it ends.
func FuzzNeighbors(f *testing.F) {
	for seed := range uint64(64) {
		rng := rand.New(rand.NewPCG(seed, 13))
		input := make([]byte, 200+rng.IntN(1800))
		for i := range input {
			input[i] = byte(rng.Uint32())
		}
		f.Add(input)
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		if len(input) > 4<<10 {
			return
		}
		w := newWorld(t, (*fuzzed.Input)(&input))
		w.liar.kind = liarKind(w.choose.Of(int(liarKinds)))
		w.begin()
		for len(*w.choose) > 0 && w.done == nil {
			w.turn()
		}
		w.finish()
		require.LessOrEqual(t, w.spent, uint64(fixedCost+dearest*w.bytes), "bytes allocated for %d received", w.bytes)
	})
}

// What the cores of a world allocate, in bytes: for themselves, and for each byte
// of frames that they receive.
const (
	fixedCost = 8 << 20
	dearest   = 64
)

// begin lets a job come so far before there are lies: not at all, or up, or up with
// ranks that have said hello.
func (w *world) begin() {
	how := w.choose.Of(3)
	if how == 0 {
		return
	}
	w.drain()
	for _, a := range w.agents {
		for _, rank := range slices.Sorted(maps.Keys(a.alive)) {
			if how == 2 {
				w.post(a, RankFrame{rank, rankwire.Hello{}})
				w.post(a, RankFrame{rank, rankwire.Publish{Tuple: fabric.Tuple{Kind: fabric.IB, LID: 1, Num: uint32(rank)}}})
			}
		}
	}
	w.drain()
}

// turn lets one thing happen.
func (w *world) turn() {
	c := w.choose
	switch c.Of(16) {
	case 0, 1, 2, 3, 4, 5, 6, 7:
		w.deliver(c.Of(len(w.posted)))
	case 8, 9, 10:
		w.act()
	case 11:
		w.drain()
		w.tick()
	case 12, 13, 14:
		w.lie()
	case 15:
		w.happen()
	}
}

// deliver takes the first event of the path of the i-th.
func (w *world) deliver(i int) {
	if len(w.posted) == 0 {
		return
	}
	want := w.posted[i]
	i = slices.IndexFunc(w.posted, func(d delivery) bool { return d.to == want.to && d.path == want.path })
	d := w.posted[i]
	w.posted = slices.Delete(w.posted, i, i+1)
	if f, ok := d.ev.(Frame); ok && w.liar.at != nil && (w.liar.kind == childLies && d.path == any(w.liar.at) || w.liar.kind == parentLies && d.to == w.liar.at && d.path == any(d.to.parent)) {
		w.liar.last = f.Msg
	}
	w.step(d.to, d.ev)
}

func (w *world) drain() {
	for n := 0; len(w.posted) > 0; n++ {
		require.Less(w.t, n, 100_000, "messages without end: %v", w.posted[0].ev)
		w.deliver(0)
	}
}

// tick moves the time to the first timer.
func (w *world) tick() {
	var first *member
	for _, a := range w.agents {
		if !a.over && a.timer > 0 && (first == nil || a.timer < first.timer) {
			first = a
		}
	}
	if first == nil {
		return
	}
	w.now, first.timer = max(w.now, first.timer), 0
	w.step(first, Tick{})
}

// act lets a rank do something honest.
func (w *world) act() {
	c := w.choose
	a := w.agents[c.Of(len(w.agents))]
	if len(a.alive) == 0 {
		return
	}
	rank := a.node.First + job.Slot(c.Of(int(a.node.Ranks)))
	if !a.alive[rank] || w.liar.kind == rankLies && a == w.liar.at && rank == w.liar.rank {
		return
	}
	var m frame.Message
	to := job.Slot(c.Of(int(w.job.Size)))
	switch c.Of(14) {
	case 0, 1:
		m = rankwire.Hello{}
	case 2, 3, 4:
		m = rankwire.Publish{Tuple: fabric.Tuple{Kind: fabric.IB, LID: 1, Num: uint32(rank)}}
	case 5, 6:
		m = rankwire.Ask{Rank: to, Fresh: c.Odds(4)}
	case 7:
		a.ops[rank]++
		what := rankwire.Collective(a.ops[rank] % 3)
		collect := rankwire.Collect{Op: a.ops[rank], What: []rankwire.Collective{rankwire.Barrier, rankwire.AllGather, rankwire.AllToAll}[what]}
		if what > 0 {
			collect.Parcels = rankwire.NewParcels(rankwire.Parcel{From: rank, To: []job.Slot{rankwire.Everyone, to % job.Slot(w.agents[0].core.job.Layout.Ranks())}[what-1], Value: []byte{byte(rank)}})
		}
		m = collect
	case 8:
		m = rankwire.Put{Key: "k", Value: []byte{byte(rank)}}
	case 9:
		m = rankwire.Name{Do: rankwire.Naming(c.Of(3)), Service: "s", Port: "p"}
	case 10:
		m = rankwire.Pair{Rank: to}
	case 11:
		m = rankwire.Later{}
	case 12:
		m = rankwire.Ask{Rank: to, Key: "k"}
	case 13:
		w.exit(a, rank, job.Status{Code: uint8(c.Of(2))})
		return
	}
	w.post(a, RankFrame{rank, m})
}

// happen is what comes from outside.
func (w *world) happen() {
	c := w.choose
	a := w.agents[c.Of(len(w.agents))]
	switch c.Of(4) {
	case 0:
		if len(a.fences) > 0 { // what failed has no values
			w.post(a, BulkRequested{a.fences[c.Of(len(a.fences))]})
		}
	case 1:
		w.post(w.agents[0], Interrupted{10})
	case 2:
		if a.alive[a.node.First] {
			w.post(a, RankOutput{a.node.First, 1, make([]byte, wire.MaxData)})
		}
	case 3:
		switch c.Of(64) {
		case 1:
			w.post(a, ReaperLost{})
		case 2:
			w.post(a, EndRequested{sigTerm})
		case 3:
			w.post(w.agents[0], Interrupted{sigTerm})
		}
	}
}

// finish ends the job, and holds that it ends: each agent, in time.
func (w *world) finish() {
	w.drain()
	for _, signal := range []uint8{sigInt, sigTerm} {
		if w.done == nil {
			w.post(w.agents[0], Interrupted{signal})
		}
		for n := 0; n < 1000 && w.now < 1000*time.Hour; n++ {
			w.drain()
			w.tick()
		}
	}
	require.NotNil(w.t, w.done, "the job does not end")
	for _, run := range w.done.Runs {
		require.LessOrEqual(w.t, uint64(run.First)+uint64(run.Count), uint64(w.job.Size))
	}
	for i, a := range w.agents {
		require.True(w.t, a.over, "agent %d (%s) does not end", i, a.host)
	}
}
