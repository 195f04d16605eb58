package peer

import (
	"time"

	"ibrun/fabric"
	"ibrun/internal/job"
)

// start begins a rank's next epoch, at the old address or a new one: its next program, or anew as
// a rank that was restarted.
func (w *world) start(r *rank, anew bool) {
	if r.epoch++; anew {
		r.epoch = job.Epoch(job.StartOf(r.epoch)+1, 1)
	}
	r.epochs = append(r.epochs, r.epoch)
	r.alive, r.thaw = true, 0
	if r.epoch == 1 || w.Rand.IntN(2) == 0 {
		r.tuple = fabric.Tuple{Kind: fabric.ETH4, Num: uint32(r.id)<<8 | uint32(len(r.epochs))}
	}
	r.tuples = append(r.tuples, r.tuple)
	clear(r.from)
	w.Log("rank %d starts as epoch %d at %d", r.id, r.epoch, r.tuple.Num)
	scratch := &Scratch{}
	for _, other := range w.ranks {
		if other == r {
			continue
		}
		e := &end{w: w, self: r, other: other, flow: &flow{epoch: r.epoch, last: -1}}
		if old := r.ends[other.id]; old != nil {
			old.dead = true
			e.flows = old.flows
		}
		e.flows = append(e.flows, e.flow)
		cfg := w.cfg
		cfg.Epoch, cfg.Tuple, cfg.Scratch = r.epoch, r.tuple, scratch
		cfg.Seed = w.Rand.Uint64()
		e.peer = New(cfg)
		if job.StartOf(other.epoch) > 0 {
			e.raise(other.epoch) // the agent has said so before
		}
		e.peer.trace = func(what any) {
			switch what := what.(type) {
			case *connectionRow:
				w.Log("  %d (%d): %v + %v -> %v", r.id, other.id, what.states[0], what.inputs[0], what.next)
				w.used[[2]int{int(what.states[0]), int(what.inputs[0])}]++
			case news:
				e.controls = append(e.controls, placed{len(e.peer.scratch.effects), what.control})
			}
		}
		r.ends[other.id] = e
	}
}

// raise is the agent's word that a rank was restarted.
func (e *end) raise(epoch uint16) {
	e.w.Log("%d hears that %d counts from epoch %d on", e.self.id, e.other.id, epoch)
	e.floor = max(e.floor, epoch)
	e.step(Event{Kind: Floor, Epoch: epoch})
}

// restart starts a rank anew, and tells all others of it, some before it runs and some later.
func (w *world) restart(r *rank) {
	epoch := job.Epoch(job.StartOf(r.epoch)+1, 1)
	for _, other := range w.ranks {
		if other != r {
			w.At(w.Now+w.UpTo(50*time.Millisecond), func() { w.when(other, func() { other.ends[r.id].raise(epoch) }) })
		}
	}
	w.At(w.Now+w.UpTo(50*time.Millisecond), func() { w.start(r, true) })
}

func (w *world) stop(r *rank, forGood bool) {
	w.Log("rank %d stops, for good: %v", r.id, forGood)
	r.alive, r.exited = false, forGood
	for _, e := range r.ends {
		if e != nil {
			e.dead = true
		}
	}
}
