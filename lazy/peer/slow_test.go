package peer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSlowMachine: sixteen ranks that share a core, each with a message for every
// other, do not drown it in repetitions, be a packet 0.1 ms of work or 5 ms. Seven packets make a
// pair and carry two messages, or eight; ten are taken.
func TestSlowMachine(t *testing.T) {
	for work := 100 * time.Microsecond; work <= 5*time.Millisecond; work *= 7 {
		for _, room := range []int{16, 256} {
			w := newWorld(1, chances{ranks: 16, work: work, room: room})
			for _, r := range w.ranks {
				r.turnToAll()
			}
			require.NoError(t, w.run())
			posts := 0
			for _, n := range w.posts {
				posts += n
			}
			require.Len(t, w.took, 16*15, "%v: every message arrives", work)
			require.LessOrEqual(t, posts, 10*16*15/2, "%v", work)
		}
	}
}

// turnToAll sends a message to every other rank as a Table does: with as many
// handshakes under way as Openings allows.
func (r *rank) turnToAll() {
	var openings Openings
	next := 1
	var more func()
	more = func() {
		for ; next < len(r.ends); next++ {
			e := r.ends[(r.id+next)%len(r.ends)]
			if e.opened == 0 {
				ticket, ok := openings.Begin()
				if !ok {
					return
				}
				e.whenOpened = func() {
					openings.End(ticket, e.peer.Counts().Repeated > 0)
					e.w.At(e.w.Now, more)
				}
			}
			e.send(headLen, false)
		}
	}
	more()
}

// turns of ranks that share a core end after so many events.
const turn = 8

// queue lets an event wait until its rank has the core.
func (w *world) queue(r *rank, isPacket bool, do func()) {
	if isPacket {
		if r.behind == w.room {
			return
		}
		r.behind++
	}
	r.todo = append(r.todo, func() {
		if isPacket {
			r.behind--
			w.posted++
		}
		do()
	})
	if !w.running {
		w.running = true
		w.At(w.Now, w.turn)
	}
}

// turn gives the core to the next rank that has something to do.
func (w *world) turn() {
	for range w.ranks {
		w.next = (w.next + 1) % len(w.ranks)
		r := w.ranks[w.next]
		if len(r.todo) == 0 {
			continue
		}
		w.posted = 0
		for i := 0; i < turn && len(r.todo) > 0; i++ {
			do := r.todo[0]
			r.todo = r.todo[1:]
			do()
		}
		w.At(w.Now+time.Duration(w.posted)*w.work, w.turn)
		return
	}
	w.running = false
}
