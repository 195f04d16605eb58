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

// pipe is a simulated stream between two ranks.
type pipe struct {
	w     *streamWorld
	token Token
	sides [2]*side // the side of the dialer, then the side of the listener
}

// side is the end of a pipe at one rank. It holds the messages that were sent to this rank.
type side struct {
	end     *streamEnd
	items   []item
	due     time.Duration // time at which the last message in items arrives
	reading bool
	closed  bool // the rank of this side has closed the stream
	failed  bool
	cut     bool  // messages are no longer transported in either direction
	stopped bool  // the rank of this side has aborted the stream; messages that it has read are still being delivered
	came    int   // number of messages that were delivered
	kept    []int // retained messages, in order; each is added before it is written
	over    bool  // the other side has closed the stream
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

// dial performs the effect Dial. It tries again, as package lazy does, while the listener does not expect the dial.
// until is the time after which it gives up.
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
			later = w.UpTo(200 * time.Millisecond) // the dialer is stopped, and does not read the proof in time
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

// shut closes this end of the stream, if e has one.
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
	p.w.After(max(far.due-p.w.Now, 0)+p.w.delay, func() { // after all written messages have arrived
		if !far.cut && !s.stopped {
			far.over = true
			p.drain(far)
		}
	})
}

// fail makes the stream fail on the side s. The other side does not notice the failure.
func (p *pipe) fail(s *side) {
	p.w.Log("the stream of %d to %d fails", s.end.self.id, s.end.other.id)
	s.failed = true
	p.drain(s)
}

// cut ends the transport of messages in both directions. who is the index of the side that detects the failure after
// some time, or 2 if both sides do. A side also detects the failure when it writes.
func (p *pipe) cut(who int) {
	if !p.sides[0].end.self.keeps || !p.sides[1].end.self.keeps {
		who = 2 // otherwise a rank that only receives might never detect the failure
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

// stop performs the effect Stop: the rank of s aborts the stream. Of the messages that have arrived, a random number is
// still delivered.
func (p *pipe) stop(s *side) {
	s.stopped = true
	read := p.w.Rand.IntN(len(s.items) + 1)
	p.w.After(p.w.UpTo(30*time.Millisecond), func() { // the fabric reports the aborted stream as failed
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

// lost reports the failure or the end of the stream to the rank of a side, as its reading goroutine would.
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

// write sends a message to the other side.
func (p *pipe) write(e *streamEnd, i item) {
	own, far := p.of(e)
	switch {
	case own.stopped: // the message is retained
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

// drain delivers the messages that have arrived, if the side is being read, and then reports the end of the stream.
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
