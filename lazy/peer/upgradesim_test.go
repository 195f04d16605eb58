package peer

import (
	"time"

	"ibrun/fabric"
	"ibrun/test/seeded"
)

// streamChances contains the parameters of a schedule: what happens to its packets, streams and ranks. Fields of type
// float64 are probabilities.
type streamChances struct {
	ranks           int
	loss, dup       float64       // probability that a packet is lost or duplicated
	delay, sway     time.Duration // one-way latency of a packet, and the maximum random time added to it
	noOffer, noDial float64       // probability that making the offer or dialing fails
	noProof         float64       // probability that the dialer does not get the proof of the listener in time
	breaks          int           // number of streams that fail
	cuts            int           // number of failures of streams whose messages are retained
	keepless        float64       // probability that a rank does not retain messages
	moves           int           // how many times the first network of a rank fails and recovers
	slow            time.Duration // maximum duration of a write to a stream
	sends, rests    int
	long            float64 // probability that a message needs a stream
	polls           bool    // senders ask again after a delay instead of waiting
	restarts        int
	active          time.Duration // time from the start of the schedule after which no more faults occur
	cfg             Config
	stage           int // Config.Stage, in bytes
	trace           func(format string, args ...any)
}

// streamWorld simulates ranks, a network and an agent with a virtual clock.
type streamWorld struct {
	streamChances
	seeded.Time
	all    []*streamRank
	tokens uint64
	used   seeded.Counts
}

// streamRank is a simulated rank. Each restart begins a new epoch of it.
type streamRank struct {
	id    int
	epoch uint16
	alive bool
	keeps bool // the rank retains the messages that it writes to streams
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

// run runs the simulation until no event is scheduled.
func (w *streamWorld) run() error { return w.Run(w.active + 10*time.Minute) }

func (r *streamRank) tuple() fabric.Tuple {
	return fabric.Tuple{Kind: fabric.IB, Num: uint32(r.id+1)<<8 | uint32(r.epoch)}
}

// second returns the address of the rank on the second network.
func (r *streamRank) second() fabric.Tuple {
	return fabric.Tuple{Kind: fabric.ETH4, Num: uint32(r.id+1)<<8 | uint32(r.epoch)}
}

// start starts the next epoch of a rank.
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
				if w.Trace != nil { // allocating the arguments costs more than the rest
					w.Log("  %d (%d): %v + %v -> %v", r.id, other.id, what.states[0], what.inputs[0], what.next)
				}
				w.used[[2]int{int(what.states[0]), int(what.inputs[0])}]++
			}
		}
		r.ends[other.id] = e
	}
}

// stop ends a rank without sending anything to its peers.
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
