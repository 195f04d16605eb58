package peer

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"ibrun/test/seeded"
)

// pickStreams returns the parameters of the schedule with the given seed.
func pickStreams(seed uint64, ranks int) streamChances {
	r := rand.New(rand.NewPCG(seed, 13))
	of := func(list ...float64) float64 { return list[r.IntN(len(list))] }
	k := streamChances{
		ranks: ranks, loss: of(0, 0, 0.05, 0.3), dup: of(0, 0, 0.1),
		delay:   time.Duration(of(20, 100, 1000)) * time.Microsecond,
		sway:    time.Duration(of(0, 50, 3000)) * time.Microsecond,
		noOffer: of(0, 0, 0, 0.3, 1), noDial: of(0, 0, 0.3, 0.9), noProof: of(0, 0, 0.3),
		slow:  time.Duration(of(0, 0, 500, 20000)) * time.Microsecond,
		sends: 1 + r.IntN(24), rests: int(of(0, 3, 12)), long: of(0, 0.1, 0.5), polls: r.IntN(3) == 0,
		active: time.Duration(of(5, 50, 400)) * time.Millisecond,
		cfg: Config{Always: r.IntN(8) == 0,
			Worth: Worth{Limit: int(of(0, 0, 4, 16)), PerSecond: int(of(0, 50)), Packet: 4 << 10, Each: 1}},
		stage: int(of(600, 1500, 5000)),
	}
	switch r.IntN(6) {
	case 2, 3, 4:
		k.cuts, k.keepless, k.moves = 1+r.IntN(6), of(0, 0, 0, 0.3), r.IntN(4)
		k.rests = k.rests * 4
		if k.keepless == 0 && r.IntN(3) == 0 {
			k.restarts = 1 + r.IntN(3)
		}
	case 0:
		k.restarts = 1 + r.IntN(3)
	case 1:
		k.breaks = 1 + r.IntN(2)
	}
	return k
}

// plan schedules all sends, closes, faults and restarts of the simulation.
func (w *streamWorld) plan() {
	some := func(n int, do func(e *streamEnd)) {
		for range n {
			i, j := w.Rand.IntN(len(w.all)), w.Rand.IntN(len(w.all)-1)
			if j >= i {
				j++
			}
			w.After(w.UpTo(w.active), func() { do(w.all[i].ends[j]) })
		}
	}
	n := len(w.all) / 2
	some(w.sends*n, func(e *streamEnd) {
		for range 1 + w.Rand.IntN(5) {
			size := 6 + w.Rand.IntN(500)
			if w.Rand.Float64() < w.long {
				size = LongMessage + 1
			}
			if e.send(size); w.Rand.IntN(4) == 0 {
				e.other.ends[e.self.id].send(size) // both ranks send at the same time
			}
		}
	})
	some(w.rests*n, func(e *streamEnd) {
		if e.rest(); w.Rand.IntN(3) == 0 {
			e.other.ends[e.self.id].rest()
		}
	})
	some(w.breaks*n, func(e *streamEnd) {
		if e.pipe != nil {
			own, _ := e.pipe.of(e)
			e.pipe.fail(own)
		}
	})
	some(w.cuts*n, func(e *streamEnd) {
		if e.pipe != nil {
			e.pipe.cut(w.Rand.IntN(3))
		}
	})
	some(w.moves*n, func(e *streamEnd) {
		e.step(Event{Kind: Down})
		w.After(w.UpTo(w.active), func() { e.step(Event{Kind: Recovered}) })
	})
	some(w.restarts, func(e *streamEnd) {
		if r := e.self; r.alive {
			w.stop(r)
			w.After(w.UpTo(50*time.Millisecond), func() { w.start(r) })
		}
	})
	w.After(w.active+10*time.Second, func() { // a restarted rank that sends nothing is not detected otherwise
		for _, r := range w.all {
			for _, e := range r.ends {
				if e != nil && w.restarts > 0 {
					e.step(Event{Kind: Warm})
				}
			}
		}
	})
	w.After(w.active+20*time.Second, func() { w.close(40) })
}

// close asks all pairs to close their connections. It repeats this up to the given number of times until they have.
func (w *streamWorld) close(times int) {
	for _, r := range w.all {
		for _, e := range r.ends {
			if e != nil {
				e.rest()
			}
		}
	}
	if times > 0 && w.atRest() != nil {
		w.After(300*time.Millisecond+w.UpTo(100*time.Millisecond), func() { w.close(times - 1) })
	}
}

// atRest returns an error if, at the end of the schedule, a message is missing or a pair is still connected.
func (w *streamWorld) atRest() error {
	for _, r := range w.all {
		for _, e := range r.ends {
			if e == nil {
				continue
			}
			o := e.other.ends[r.id]
			pair := fmt.Sprintf("%d to %d", r.id, e.other.id)
			if e.alarmed && !o.over && w.restarts == 0 {
				return fmt.Errorf("%s: the stream failed, and the other side was not told", pair)
			}
			for seq := e.flow.excused; seq < e.flow.sent; seq++ {
				if !e.flow.got[seq] {
					return fmt.Errorf("%s: message %d of %d has vanished", pair, seq, e.flow.sent)
				}
			}
			if e.over || o.over {
				continue
			}
			if len(e.outbox) > 0 {
				return fmt.Errorf("%s: %d messages still wait, in %v", pair, len(e.outbox), e.peer.at)
			}
			if s := e.peer.State(); s != Idle || e.peer.at[stream] != noStream || e.pipe != nil {
				return fmt.Errorf("%s: %v, %v at the end", pair, s, e.peer.at)
			}
		}
	}
	return nil
}

func runStreamSchedule(seed uint64, ranks int, trace func(string, ...any)) (seeded.Counts, error) {
	k := pickStreams(seed, ranks)
	k.trace = trace
	w := newStreamWorld(seed, k)
	w.plan()
	if err := w.run(); err != nil {
		return nil, err
	}
	return w.used, w.atRest()
}

// TestStreamSchedules runs random schedules of upgrades with real Peers: packets are lost, attempts and streams fail,
// connections are closed, and ranks are restarted. In each schedule every message must arrive once and in order, and
// all pairs must come to rest. A failure prints the command that repeats it.
func TestStreamSchedules(t *testing.T) {
	runStreamSchedules(t, 800)
}

// runStreamSchedules runs count random schedules. It returns how often each input occurred in each state.
func runStreamSchedules(t *testing.T, count int) seeded.Counts {
	ever := seeded.Run(t, count, "./lazy/peer", runStreamSchedule)
	for s := range upgradeStates {
		for _, in := range inputsOf[s.region()] {
			r, n := upgradeIndex[s][in], ever[[2]int{int(s), int(in)}]
			t.Logf("%-10v %-30v %d", s, in, n)
			if strings.HasPrefix(r.why, "cannot be") {
				assert.Zero(t, n, "%v, %v: %s", s, in, r.why)
			}
		}
	}
	return ever
}
