package peer

import (
	"errors"
	"time"
)

var (
	errNoPort    = errors.New("no port is free")
	errHungUp    = errors.New("the other side hangs up")
	errPeerEnded = errors.New("the other side has ended")
)

// pipe is a stream of two ranks.
type pipe struct {
	w     *streamWorld
	token Token
	sides [2]*side // of the rank that dialled, and of the one that listened
}

// side is one rank's hold of a pipe, and what is on the way to it.
type side struct {
	end     *streamEnd
	items   []item
	due     time.Duration // when the last of them is here
	reading bool
	closed  bool // by its own rank
	failed  bool
	cut     bool  // nothing arrives or leaves any more
	stopped bool  // by its own rank: what it had read is still being delivered
	came    int   // messages that were delivered
	kept    []int // messages that were written, in their order
	over    bool  // the other one has closed
}

type item struct {
	epoch uint16
	seq   int
	mark  bool
}

func (p *pipe) of(e *streamEnd) (own, far *side) {
	if p.sides[0].end == e {
		return p.sides[0], p.sides[1]
	}
	return p.sides[1], p.sides[0]
}

// dial is the fabric, with the retries that package lazy makes.
func (e *streamEnd) dial(token Token, epoch uint16, until time.Duration) {
	w := e.w
	fails := func(why error) {
		if !e.dead && e.peer.Awaits(token) {
			e.step(Event{Kind: DialFailed, Token: token, Why: why})
		}
	}
	if w.chance(w.noDial) {
		w.After(w.delay+w.UpTo(10*time.Millisecond), func() { fails(errDial) })
		return
	}
	p := &pipe{w: w, token: token}
	w.After(2*w.delay+w.UpTo(w.sway), func() {
		if e.dead || !e.peer.Awaits(token) {
			return
		}
		if !e.other.alive || e.other.epoch != epoch && w.Rand.IntN(2) == 0 {
			fails(errDial)
			return
		}
		o := e.other.ends[e.self.id]
		if !o.peer.Awaits(token) {
			if w.Now > until {
				fails(errHungUp)
				return
			}
			w.After(100*time.Millisecond, func() { e.dial(token, epoch, until) })
			return
		}
		p.sides = [2]*side{{end: e}, {end: o}}
		o.pipe = p
		o.step(Event{Kind: Connected, Token: token, Kept: o.self.keeps})
		lost := w.chance(w.noProof)
		later := time.Duration(0)
		if lost {
			later = w.UpTo(200 * time.Millisecond) // it stands still until it is too late
		}
		w.After(later+w.delay+w.UpTo(w.sway), func() {
			switch {
			case e.dead:
			case !e.peer.Awaits(token) || lost || p.sides[1].closed:
				p.close(p.sides[0])
				fails(errHungUp)
			default:
				e.pipe = p
				e.step(Event{Kind: Connected, Token: token, Kept: e.self.keeps})
			}
		})
	})
}

// shut closes the pipe that an end has.
func (e *streamEnd) shut() {
	if e.pipe != nil {
		own, _ := e.pipe.of(e)
		e.pipe.close(own)
		e.pipe = nil
	}
}

func (p *pipe) close(s *side) {
	if s.closed {
		return
	}
	s.closed = true
	far := p.sides[0]
	if far == s {
		far = p.sides[1]
	}
	p.w.After(max(far.due-p.w.Now, 0)+p.w.delay, func() { // behind what was written
		if !far.cut && !s.stopped {
			far.over = true
			p.drain(far)
		}
	})
}

// fail lets one side's hold fail; the other side is not told.
func (p *pipe) fail(s *side) {
	p.w.Log("the stream of %d to %d fails", s.end.self.id, s.end.other.id)
	s.failed = true
	p.drain(s)
}

// cut ends what the network does for a pipe. Who notices of itself is drawn: the first side, the
// second, or both, each in its time. A write finds it, too.
func (p *pipe) cut(who int) {
	if !p.sides[0].end.self.keeps || !p.sides[1].end.self.keeps {
		who = 2 // or who does not keep would hear of it by its write alone, and who receives not at all
	}
	p.w.Log("the stream of %d to %d is cut", p.sides[0].end.self.id, p.sides[1].end.self.id)
	for i, s := range p.sides {
		s.cut, s.over = true, false
		if who == i || who == 2 {
			p.w.After(p.w.UpTo(300*time.Millisecond), func() {
				if s.end.self.keeps && s.end.pipe == p || s.reading {
					p.lost(s, errFailed)
				}
			})
		}
	}
}

// stop ends the reading of a side by its own rank. Some of what has come was read already.
func (p *pipe) stop(s *side) {
	s.stopped = true
	read := p.w.Rand.IntN(len(s.items) + 1)
	p.w.After(p.w.UpTo(30*time.Millisecond), func() { // the fabric says that what was aborted has failed
		if e := s.end; !e.dead && !s.closed {
			e.step(Event{Kind: Lost, Token: p.token, Why: errFailed, Over: e.over, Kept: true})
		}
	})
	if !s.reading {
		return
	}
	p.w.After(p.w.UpTo(20*time.Millisecond), func() {
		if s.end.dead || s.closed {
			return
		}
		for _, i := range s.items[:read] {
			if i.mark {
				break
			}
			s.came++
			s.end.delivered(i.epoch, i.seq, "stream that has failed")
		}
		s.end.step(Event{Kind: Stopped, Token: p.token, Have: uint64(s.came)})
	})
}

// lost tells the reader of a side, which has a goroutine of its own.
func (p *pipe) lost(s *side, why error) {
	e := s.end
	if e.dead || s.closed || s.stopped {
		return
	}
	p.w.After(0, func() {
		if !e.dead && !s.closed {
			e.step(Event{Kind: Lost, Token: p.token, Why: why, PeerEnded: why == errPeerEnded, Over: e.over,
				Kept: e.self.keeps})
		}
	})
}

// write puts something on the way to the other side.
func (p *pipe) write(e *streamEnd, i item) {
	own, far := p.of(e)
	switch {
	case own.stopped: // it is kept
	case own.cut:
		p.lost(own, errFailed)
	case own.failed || own.closed || far.failed:
		e.step(Event{Kind: Lost, Token: p.token, Why: errFailed, Over: e.over})
	case far.closed:
		e.step(Event{Kind: Lost, Token: p.token, Why: errPeerEnded, PeerEnded: true, Over: e.over})
	default:
		far.due = max(far.due, p.w.Now+p.w.delay+p.w.UpTo(p.w.sway))
		p.w.After(far.due-p.w.Now, func() {
			if !far.cut {
				far.items = append(far.items, i)
				p.drain(far)
			}
		})
	}
}

func (p *pipe) read(e *streamEnd) {
	own, _ := p.of(e)
	own.reading = true
	if own.cut {
		p.lost(own, errFailed)
		return
	}
	p.w.After(0, func() { p.drain(own) })
}

// drain hands over what is here, if it is read, and then says how the stream ended.
func (p *pipe) drain(s *side) {
	e := s.end
	for s.reading && !s.closed && !s.stopped && !s.failed && len(s.items) > 0 && !e.dead {
		i := s.items[0]
		s.items = s.items[1:]
		if i.mark {
			s.reading = false
			e.step(Event{Kind: EndRead, Token: p.token, Have: uint64(s.came)})
			continue
		}
		s.came++
		e.delivered(i.epoch, i.seq, "stream")
	}
	switch {
	case !s.reading || s.closed || s.stopped || e.dead:
	case s.failed:
		s.reading = false
		p.lost(s, errFailed)
	case s.over:
		s.reading = false
		p.lost(s, errPeerEnded)
	}
}
