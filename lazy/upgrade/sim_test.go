package upgrade

import (
	"time"

	"ibrun/fabric"
	"ibrun/lazy/peer"
	"ibrun/test/seeded"
)

// chances is what one schedule does to its packets, streams and ranks.
type chances struct {
	ranks           int
	loss, dup       float64       // of a packet
	delay, sway     time.Duration // one way, and at most that much more
	noOffer, noDial float64       // attempts that fail
	noProof         float64       // of the dials whose listener has accepted
	breaks          int           // streams that fail
	cuts            int           // the same, while what is written to them is kept
	keepless        float64       // ranks that keep nothing
	moves           int           // to another network
	slow            time.Duration // a write to a stream takes, at most
	sends, rests    int
	long            float64 // messages that need a stream
	polls           bool    // senders do not wait, but come again
	restarts        int
	active          time.Duration // then the schedule clears
	cfg             Config
	stage           int // bytes
	trace           func(format string, args ...any)
}

// world is ranks, a network and an agent under virtual time.
type world struct {
	chances
	seeded.Time
	all    []*rank
	tokens uint64
	used   seeded.Counts
}

// rank is one epoch after the other of one rank.
type rank struct {
	id    int
	epoch uint16
	alive bool
	keeps bool // what it writes to streams
	ends  []*end
	todo  []func() // of its peers, as one table has them
}

func newWorld(seed uint64, k chances) *world {
	w := &world{chances: k, used: seeded.Counts{}, Time: seeded.NewTime(seed, 11, k.trace)}
	for id := range k.ranks {
		keeps := k.cuts > 0 && w.Rand.Float64() >= k.keepless
		w.all = append(w.all, &rank{id: id, ends: make([]*end, k.ranks), keeps: keeps})
	}
	for _, r := range w.all {
		w.start(r)
	}
	return w
}

func (w *world) clear() bool { return w.Now >= w.active }

func (w *world) chance(p float64) bool { return !w.clear() && w.Chance(p) }

// run goes on until nothing is left to happen.
func (w *world) run() error { return w.Run(w.active + 10*time.Minute) }

func (r *rank) tuple() fabric.Tuple {
	return fabric.Tuple{Kind: fabric.ETH4, Num: uint32(r.id+1)<<8 | uint32(r.epoch)}
}

// start begins a rank's next epoch.
func (w *world) start(r *rank) {
	r.epoch++
	r.alive = true
	w.Log("rank %d starts as epoch %d", r.id, r.epoch)
	scratch := &peer.Scratch{}
	for _, other := range w.all {
		if other == r {
			continue
		}
		e := &end{w: w, self: r, other: other, flow: &flow{last: -1}}
		if old := r.ends[other.id]; old != nil {
			e.flows = old.flows
		}
		e.flows = append(e.flows, e.flow)
		e.peer = peer.New(peer.Config{
			Epoch: r.epoch, Tuple: r.tuple(), MTU: 512, Stage: w.stage,
			Seed: w.Rand.Uint64(), Scratch: scratch,
		})
		cfg := w.cfg
		cfg.Dials = r.id < other.id
		e.up = New(cfg)
		e.up.trace = func(used *row) {
			if w.Trace != nil { // boxing costs more than the rest of it
				w.Log("  %d (%d): %v + %v -> %v", r.id, other.id, used.from[0], used.inputs[0], used.next)
			}
			w.used[[2]int{int(used.from[0]), int(used.inputs[0])}]++
		}
		r.ends[other.id] = e
	}
}

// stop ends a rank without a word.
func (w *world) stop(r *rank) {
	w.Log("rank %d stops", r.id)
	r.alive = false
	for _, e := range r.ends {
		if e == nil {
			continue
		}
		e.dead = true
		e.flow.excuse()
		e.other.ends[r.id].flow.excuse()
		e.shut()
	}
}
