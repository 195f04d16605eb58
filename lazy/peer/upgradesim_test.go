package peer

import (
	"time"

	"ibrun/fabric"
	"ibrun/test/seeded"
)

// chances is what one schedule does to its packets, streams and ranks.
type streamChances struct {
	ranks           int
	loss, dup       float64       // of a packet
	delay, sway     time.Duration // one way, and at most that much more
	noOffer, noDial float64       // attempts that fail
	noProof         float64       // of the dials whose listener has accepted
	breaks          int           // streams that fail
	cuts            int           // the same, while what is written to them is kept
	keepless        float64       // ranks that keep nothing
	moves           int           // of a rank whose first network is down for a while
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
type streamWorld struct {
	streamChances
	seeded.Time
	all    []*streamRank
	tokens uint64
	used   seeded.Counts
}

// rank is one epoch after the other of one rank.
type streamRank struct {
	id    int
	epoch uint16
	alive bool
	keeps bool // what it writes to streams
	ends  []*streamEnd
}

func newStreamWorld(seed uint64, k streamChances) *streamWorld {
	w := &streamWorld{streamChances: k, used: seeded.Counts{}, Time: seeded.NewTime(seed, 11, k.trace)}
	for id := range k.ranks {
		keeps := k.cuts > 0 && w.Rand.Float64() >= k.keepless
		w.all = append(w.all, &streamRank{id: id, ends: make([]*streamEnd, k.ranks), keeps: keeps})
	}
	for _, r := range w.all {
		w.start(r)
	}
	return w
}

func (w *streamWorld) clear() bool { return w.Now >= w.active }

func (w *streamWorld) chance(p float64) bool { return !w.clear() && w.Chance(p) }

// run goes on until nothing is left to happen.
func (w *streamWorld) run() error { return w.Run(w.active + 10*time.Minute) }

func (r *streamRank) tuple() fabric.Tuple {
	return fabric.Tuple{Kind: fabric.IB, Num: uint32(r.id+1)<<8 | uint32(r.epoch)}
}

// second is the address by the second network.
func (r *streamRank) second() fabric.Tuple {
	return fabric.Tuple{Kind: fabric.ETH4, Num: uint32(r.id+1)<<8 | uint32(r.epoch)}
}

// start begins a rank's next epoch.
func (w *streamWorld) start(r *streamRank) {
	r.epoch++
	r.alive = true
	w.Log("rank %d starts as epoch %d", r.id, r.epoch)
	scratch := &Scratch{}
	for _, other := range w.all {
		if other == r {
			continue
		}
		e := &streamEnd{w: w, self: r, other: other, flow: &streamFlow{last: -1}}
		if old := r.ends[other.id]; old != nil {
			e.flows = old.flows
		}
		e.flows = append(e.flows, e.flow)
		cfg := w.cfg
		cfg.Epoch, cfg.Tuple, cfg.MTU, cfg.Stage = r.epoch, r.tuple(), 512, w.stage
		if w.moves > 0 {
			cfg.Secondary = r.second()
		}
		cfg.Seed, cfg.Scratch, cfg.Dials = w.Rand.Uint64(), scratch, r.id < other.id
		e.peer = New(cfg)
		e.peer.trace = func(what any) {
			switch what := what.(type) {
			case news:
				w.Log("%d hears %v of %d", r.id, controlKind(what.control[0]), other.id)
			case *upgradeRow:
				if what.next == noStream {
					e.wasFull = false
				}
				if w.Trace != nil { // boxing costs more than the rest of it
					w.Log("  %d (%d): %v + %v -> %v", r.id, other.id, what.states[0], what.inputs[0], what.next)
				}
				w.used[[2]int{int(what.states[0]), int(what.inputs[0])}]++
			}
		}
		r.ends[other.id] = e
	}
}

// stop ends a rank without a word.
func (w *streamWorld) stop(r *streamRank) {
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
