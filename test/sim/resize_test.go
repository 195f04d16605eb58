package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/core"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// sized is a job whose ranks call collectives at times, while it changes its size.
type sized struct {
	*World
	t        *testing.T
	ppn      int
	nodes    int // that there are now
	op       uint32
	released map[uint32]uint32 // by rank: the newest collective that it has come out of
	sizes    map[uint32]uint32 // by rank: the job's size, as it was last told
	at       time.Duration
}

func newSized(t *testing.T, nodes, ppn int, shape string) *sized {
	s := &sized{t: t, ppn: ppn, nodes: nodes, released: map[uint32]uint32{}, sizes: map[uint32]uint32{}}
	cfg := plan(nodes, ppn, shape)
	cfg.Silent = func(uint32) bool { return true }
	cfg.ToRank = func(_, rank uint32, m frame.Message) {
		switch m := m.(type) {
		case rankwire.Welcome:
			s.sizes[rank] = m.Layout.Ranks()
			require.LessOrEqual(t, m.Op, s.op)
		case rankwire.Release:
			require.Empty(t, m.Trouble)
			s.released[rank] = m.Op
		case rankwire.Resize:
			if m.Step == rankwire.ResizeDone {
				s.sizes[rank] = m.Layout.Ranks()
			}
		}
	}
	s.World = New(cfg)
	s.at = 5 * time.Second
	return s
}

// then does something a second after what was before.
func (s *sized) then(f func()) {
	s.at += time.Second
	s.At(s.at, f)
}

// ranks calls f for each rank of nodes from one on.
func (s *sized) ranks(from int, f func(node, rank uint32)) {
	for node := from; node < s.nodes; node++ {
		for i := range s.ppn {
			f(uint32(node), uint32(node*s.ppn+i))
		}
	}
}

func (s *sized) hello(from int) {
	s.then(func() {
		s.ranks(from, func(node, rank uint32) { s.FromRank(node, rank, rankwire.Hello{}) })
	})
}

// collective lets all ranks join one. What goes over edges is looked at after it.
func (s *sized) collective(what rankwire.Collective) {
	s.then(func() {
		s.op++
		s.ranks(0, func(node, rank uint32) { s.FromRank(node, rank, rankwire.Collect{Op: s.op, What: what}) })
	})
	s.then(func() {
		s.ranks(0, func(_, rank uint32) {
			require.Equal(s.t, s.op, s.released[rank], "rank %d has come out of collective %d", rank, s.op)
		})
	})
}

// hosts are names of n further hosts.
func hosts(n int) []job.Run { return []job.Run{{Prefix: "more", Width: 4, Lo: 1, Count: uint32(n)}} }

// A job of 64 nodes grows by 16, shrinks by 40, so that nodes leave which it began with, and grows
// again. A change costs each edge what a Barrier costs, and what is said of it: one message before
// and one as it takes effect. Ranks that stay ask for nobody again, and those that come find all.
func TestResizeCounts(t *testing.T) {
	for _, shape := range []string{"flat", "kary:2", "binomial", "auto"} {
		t.Run(shape, func(t *testing.T) {
			s := newSized(t, 64, 2, shape)
			before := map[frame.Kind]int{}
			counts := func(want map[frame.Kind]int) {
				s.then(func() {
					for _, k := range []frame.Kind{
						rankwire.KindResize, rankwire.KindCollect, rankwire.KindRelease, rankwire.KindAsk,
						wire.KindLaunch, wire.KindReady, wire.KindExit, wire.KindEnter, wire.KindDeparted,
					} {
						require.Equal(t, want[k], s.Sent[k]-before[k], wire.Vocabulary.Name(k))
						before[k] = s.Sent[k]
					}
				})
			}
			grow := func(by, before int) map[frame.Kind]int {
				s.then(func() { s.Resize(core.ResizeAsked{ID: 1, Hosts: hosts(by)}) })
				s.collective(rankwire.Resizing)
				s.then(func() { s.nodes += by })
				s.hello(before)
				return map[frame.Kind]int{
					wire.KindLaunch: by, wire.KindReady: by, wire.KindEnter: by, rankwire.KindResize: 2 * before,
					rankwire.KindCollect: before, rankwire.KindRelease: before,
				}
			}
			s.hello(0)
			s.collective(rankwire.Resizing)
			counts(map[frame.Kind]int{
				wire.KindLaunch: 64, wire.KindReady: 64, rankwire.KindCollect: 64, rankwire.KindRelease: 64,
			})
			counts(grow(16, 64))
			s.collective(rankwire.Barrier)
			counts(map[frame.Kind]int{rankwire.KindCollect: 80, rankwire.KindRelease: 80})

			s.then(func() { s.Resize(core.ResizeAsked{ID: 2, Shrink: 40}) })
			s.collective(rankwire.Resizing)
			s.collective(rankwire.Resizing)
			s.then(func() { s.nodes = 40 })
			s.collective(rankwire.Barrier) // which does not wait for those that leave
			s.then(func() { s.Leave(40, 80) })
			s.then(func() {
				require.Equal(t, core.ResizeTold{ID: 2, Over: true, Nodes: 40, Ranks: 80}, s.Resizes[len(s.Resizes)-1])
				delete(s.Sent, wire.KindDeparted) // one for each edge with nodes that leave below it, but not at it
				before[wire.KindDeparted] = 0
			})
			counts(map[frame.Kind]int{
				rankwire.KindResize: 3 * 80, rankwire.KindCollect: 2*80 + 40, rankwire.KindRelease: 2*80 + 40,
				wire.KindExit: 40,
			})
			s.collective(rankwire.Barrier)
			counts(map[frame.Kind]int{rankwire.KindCollect: 40, rankwire.KindRelease: 40})
			counts(grow(8, 40))
			s.collective(rankwire.Barrier)
			s.then(func() {
				for rank, size := range s.sizes {
					if rank < 96 {
						require.Equal(t, uint32(96), size, "rank %d", rank)
					}
				}
				s.Leave(0, 48)
			})
			s.complete(t, time.Hour)
			require.Equal(t, []job.StatusRun{{Count: 96}}, s.Outcome.Runs)
		})
	}
}

// A question about a rank that has come goes through the tree, and is answered from caches
// afterwards; all others stay answered from where they were.
func TestResizeLookups(t *testing.T) {
	s := newSized(t, 8, 1, "kary:2")
	ask := func(node, rank uint32) {
		s.then(func() { s.FromRank(node, node, rankwire.Ask{Rank: job.Slot(rank)}) })
	}
	publish := func(from int) {
		s.then(func() {
			s.ranks(from, func(node, rank uint32) {
				s.FromRank(node, rank, rankwire.Publish{Tuple: tupleOf(node, rank)})
			})
		})
	}
	asked := func(want int, what string) {
		s.then(func() {
			require.Equal(t, want, s.Sent[rankwire.KindAsk], what)
			s.Sent[rankwire.KindAsk] = 0
		})
	}
	s.hello(0)
	publish(0)
	ask(7, 0)
	s.then(func() {
		require.Positive(t, s.Sent[rankwire.KindAsk])
		s.Sent[rankwire.KindAsk] = 0
	})
	s.collective(rankwire.Resizing)
	s.then(func() { s.Resize(core.ResizeAsked{ID: 1, Hosts: hosts(2)}) })
	s.collective(rankwire.Resizing)
	s.then(func() { s.nodes += 2 })
	s.hello(8)
	publish(8)
	ask(7, 0)
	asked(0, "what was known before the change")
	ask(8, 9)
	asked(2, "from one new node to the other: up to the root and down")
	ask(9, 8)
	asked(2, "the other way")
	ask(8, 9)
	asked(0, "what was asked before")
	s.then(func() { s.Resize(core.ResizeAsked{ID: 2, Shrink: 2}) })
	s.collective(rankwire.Resizing)
	s.collective(rankwire.Resizing)
	s.then(func() {
		s.Leave(8, 10)
		s.nodes = 8
	})
	ask(7, 0)
	asked(0, "what was known before both changes")
	s.then(func() { s.Leave(0, 8) })
	s.complete(t, time.Hour)
}
