package upgrade

import (
	"container/heap"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"ibrun/fabric"
	"ibrun/lazy/peer"
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
	rng    *rand.Rand
	now    time.Duration
	serial uint64
	soon   calendar
	all    []*rank
	tokens uint64
	fault  error
	used   usage
	steps  int
}

// entry is something that will happen; what comes at the same time happens in the
// order in which it was planned.
type entry struct {
	at     time.Duration
	serial uint64
	do     func()
}

type calendar []entry

func (c calendar) Len() int { return len(c) }
func (c calendar) Less(i, j int) bool {
	return c[i].at < c[j].at || c[i].at == c[j].at && c[i].serial < c[j].serial
}
func (c calendar) Swap(i, j int) { c[i], c[j] = c[j], c[i] }
func (c *calendar) Push(x any)   { *c = append(*c, x.(entry)) }
func (c *calendar) Pop() any {
	last := len(*c) - 1
	e := (*c)[last]
	(*c)[last] = entry{}
	*c = (*c)[:last]
	return e
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
	w := &world{chances: k, rng: rand.New(rand.NewPCG(seed, 11))}
	for id := range k.ranks {
		keeps := k.cuts > 0 && w.rng.Float64() >= k.keepless
		w.all = append(w.all, &rank{id: id, ends: make([]*end, k.ranks), keeps: keeps})
	}
	for _, r := range w.all {
		w.start(r)
	}
	return w
}

func (w *world) log(format string, args ...any) {
	if w.trace != nil {
		w.trace("%12v "+format, append([]any{w.now}, args...)...)
	}
}

func (w *world) broken(format string, args ...any) {
	if w.fault == nil {
		w.fault = fmt.Errorf("at %v: "+format, append([]any{w.now}, args...)...)
	}
}

func (w *world) after(d time.Duration, do func()) {
	w.serial++
	heap.Push(&w.soon, entry{w.now + d, w.serial, do})
}

func (w *world) upTo(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(w.rng.Int64N(int64(d)))
}

func (w *world) clear() bool { return w.now >= w.active }

func (w *world) chance(p float64) bool { return p > 0 && !w.clear() && w.rng.Float64() < p }

var errEndless = errors.New("does not come to rest")

func (w *world) run() error {
	for len(w.soon) > 0 && w.fault == nil {
		next := heap.Pop(&w.soon).(entry)
		w.now = next.at
		next.do()
		if w.steps++; w.steps > 1_000_000 || w.now > w.active+10*time.Minute {
			return errEndless
		}
	}
	return w.fault
}

func (r *rank) tuple() fabric.Tuple {
	return fabric.Tuple{Kind: fabric.ETH4, Num: uint32(r.id+1)<<8 | uint32(r.epoch)}
}

// start begins a rank's next epoch.
func (w *world) start(r *rank) {
	r.epoch++
	r.alive = true
	w.log("rank %d starts as epoch %d", r.id, r.epoch)
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
			Self: uint32(r.id), Rank: uint32(other.id), Epoch: r.epoch, Tuple: r.tuple(), MTU: 512, Stage: w.stage,
			Seed: w.rng.Uint64(), Scratch: scratch,
		})
		cfg := w.cfg
		cfg.Dials = r.id < other.id
		e.up = New(cfg)
		e.up.trace = func(used *row) {
			if w.trace != nil { // boxing costs more than the rest of it
				w.log("  %d (%d): %v + %v -> %v", r.id, other.id, used.from[0], used.input, used.next)
			}
			w.used[used.from[0]][used.input]++
		}
		r.ends[other.id] = e
	}
}

// stop ends a rank without a word.
func (w *world) stop(r *rank) {
	w.log("rank %d stops", r.id)
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
