package subtree

import (
	"iter"

	"ibrun/internal/job"
)

// Ranks contains the ranks of the agent's own node. Their slots are consecutive.
type Ranks struct {
	Alive     uint32 // number of ranks that have not exited, including ranks that have not started yet
	Undrained uint32 // number of ranks whose output has not been read completely

	first    job.Slot
	programs []Program
	left     bool
}

// Open adds count ranks, in consecutive slots from first on. None of them has run a program.
func (r *Ranks) Open(first job.Slot, count uint32) {
	r.first, r.programs, r.Alive, r.Undrained = first, make([]Program, count), count, count
}

// Renumber changes the slots of the ranks to consecutive ones from first on.
func (r *Ranks) Renumber(first job.Slot) { r.first = first }

// Drop removes all ranks, because they will not be started.
func (r *Ranks) Drop() { r.programs, r.Alive, r.Undrained = nil, 0, 0 }

// Leave records that the ranks have left the job. They may still run.
func (r *Ranks) Leave() { r.left = true }

// Left reports whether the ranks have left the job.
func (r *Ranks) Left() bool { return r.left }

// First returns the slot of the first rank.
func (r *Ranks) First() job.Slot { return r.first }

// Count returns the number of ranks.
func (r *Ranks) Count() uint32 { return uint32(len(r.programs)) }

// Has reports whether a rank belongs to this node.
func (r *Ranks) Has(rank job.Slot) bool {
	return rank >= r.first && uint32(rank-r.first) < uint32(len(r.programs))
}

// Index returns the index of a rank among the ranks of this node, from 0.
func (r *Ranks) Index(rank job.Slot) int { return int(rank - r.first) }

// Of returns the newest program of a rank of this node.
func (r *Ranks) Of(rank job.Slot) *Program { return &r.programs[rank-r.first] }

// Newest returns the highest number of a program of these ranks, or 0 if there are no ranks.
func (r *Ranks) Newest() (number uint16) {
	for i := range r.programs {
		number = max(number, r.programs[i].Number())
	}
	return number
}

// All yields the ranks in order.
func (r *Ranks) All() iter.Seq2[job.Slot, *Program] {
	return func(yield func(job.Slot, *Program) bool) {
		for i := range r.programs {
			if !yield(r.first+job.Slot(i), &r.programs[i]) {
				return
			}
		}
	}
}

// Program is the one that a rank runs. Of the programs that a rank runs one after the other each
// joins the job by a Hello and leaves it by Finalize.
//
//	--Join--> in the job --End--> ended --Join--> in the job, a newer epoch
//	              |                |
//	              +------Exit------+--> exited --Restart--> not joined, a newer start
type Program struct {
	joined  bool
	ended   bool // it left the job, or the rank exited
	failed  bool
	exited  bool   // nothing will come of the rank any more
	start   uint8  // how often the rank was restarted
	earlier uint16 // programs of this start before the last one that has joined
}

// Join takes the rank's next program into the job. False: the rank has run so many that epochs
// have no number for another.
func (p *Program) Join() bool {
	next := Program{joined: true, start: p.start, earlier: p.earlier}
	if p.joined {
		if p.Number() == job.MaxProgram {
			return false
		}
		next.earlier++
	}
	*p = next
	return true
}

// End records that the program has left the job, and reports whether it was in it.
func (p *Program) End(failed bool) (first bool) {
	if first = !p.ended; first {
		p.ended, p.failed = true, failed
	}
	return first
}

// Exit records that the rank will run no other program, and that its last one has ended.
func (p *Program) Exit(failed bool) (first bool) {
	p.exited = true
	return p.End(failed)
}

// Restart makes the rank one that has run nothing since its start of a number. Until the new start
// has joined, those who wait for the rank go on waiting.
func (p *Program) Restart(start uint8) { *p = Program{start: start} }

// Start is how often the rank was restarted.
func (p *Program) Start() uint8 { return p.start }

// Number is the number of the program among those of its start, from 1.
func (p *Program) Number() uint16 { return p.earlier + 1 }

// Epoch has both numbers (job.Epoch).
func (p *Program) Epoch() uint16 { return job.Epoch(p.start, p.Number()) }

// Joined reports whether a program of the rank has ever joined the job.
func (p *Program) Joined() bool { return p.joined }

// Ended reports whether the program has left the job.
func (p *Program) Ended() bool { return p.ended }

// Failed reports whether it left by a failure.
func (p *Program) Failed() bool { return p.failed }

// Exited reports whether the rank has exited.
func (p *Program) Exited() bool { return p.exited }

// MayReturn reports whether another program of the rank may join the job.
func (p *Program) MayReturn() bool { return p.joined && !p.exited }

// Left reports whether nothing can come of the rank for programs of some number.
func (p *Program) Left(number uint16) bool {
	return p.exited || p.ended && !(p.MayReturn() && number > p.Number())
}
