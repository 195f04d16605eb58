package lazy

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"

	"ibrun/fabric"
	"ibrun/internal/job"
	"ibrun/lazy/peer"
	"ibrun/lazy/upgrade"
)

// step gives a peer's upgrade an event and performs what comes of it. The caller
// holds the lock of remote peers.
func (f *remotePeer) step(ev upgrade.Event) { f.perform(f.upgrade.Step(ev)) }

// perform performs effects in their order, also those that come up meanwhile.
func (f *remotePeer) perform(effects []upgrade.Effect) {
	if len(effects) == 0 {
		return
	}
	f.effects = append(f.effects, effects...)
	if len(f.effects) > len(effects) {
		return // a call below us on the stack will take them
	}
	for i := 0; i < len(f.effects); i++ {
		e := f.effects[i]
		f.do(&e)
	}
	f.effects = nil
}

func (f *remotePeer) do(e *upgrade.Effect) {
	t := f.t
	switch e.Kind {
	case upgrade.Send:
		if e.Control == upgrade.Switch {
			t.count(func(s *sums) { s[job.CountMoves]++ })
			f.unbundle() // it was sent before
		}
		t.step(f, peer.Event{Kind: peer.Control, Msg: e.Msg})
	case upgrade.MakeOffer:
		f.makeOffer()
	case upgrade.Dial:
		t.dial(f, e.Token, e.Offer)
	case upgrade.Read:
		f.read(f.stream)
	case upgrade.Stop:
		f.stopStream()
	case upgrade.Again:
		f.resumes++
		for _, m := range f.stream.resume(e.Have) {
			t.step(f, peer.Event{Kind: peer.Send, Msg: m})
		}
	case upgrade.Lose:
		if f.stream != nil && f.stream.unsure() {
			f.fail(t.about(f.rank, ErrFailed))
		}
	case upgrade.Mark:
		f.mark(f.stream) // the write may wait, and the lock of remote peers must not
	case upgrade.Close:
		f.close(e.Why)
	case upgrade.End:
		if f.t.cfg.Restarts && f.dead == nil {
			f.doubt(ended(e.Why), e.Alarm)
			return
		}
		f.kill(ended(e.Why))
		if e.Alarm {
			t.in.alarm(f.dead) // the peer runs, and a receiver of any rank may wait for what was lost
		}
	case upgrade.Notify:
		f.notify()
	case upgrade.Idle:
		if t.live > t.cfg.MaxLive {
			t.step(f, peer.Event{Kind: peer.Rest})
		}
	}
}

// makeOffer lets the peer dial.
func (f *remotePeer) makeOffer() {
	way := f.t.by(f.peer.Address())
	offer, err := way.Offer()
	if err != nil {
		f.step(upgrade.Event{Kind: upgrade.OfferFailed, Why: err})
		return
	}
	f.t.tokens += 2
	token := f.t.tokens &^ 1
	if way.Tuple().Kind.Ethernet() {
		token |= 1
	}
	ev := upgrade.Event{Kind: upgrade.OfferMade, Offer: offer}
	binary.BigEndian.PutUint64(ev.Token[:], token)
	f.step(ev)
}

// gotStream takes over a stream that both sides have proved.
func (f *remotePeer) gotStream(s fabric.Stream, token upgrade.Token) {
	f.stream = newStream(s, token, f.t.start(f.rank))
	f.stream.spin = f.t.cfg.Spin
	f.t.count(func(s *sums) { s[job.CountStreams]++ })
	kept := f.t.secondary != nil && !isSecond(token) && f.stream.keep()
	if f.step(upgrade.Event{Kind: upgrade.Connected, Token: token, Kept: kept}); kept {
		s := f.stream // a failure is noticed although nobody reads or writes
		s.kept.conn.OnFail(func(err error) {
			f.t.fmu.Lock()
			defer f.t.fmu.Unlock()
			if !f.t.stopped {
				f.lostStream(s, err)
			}
		})
	}
}

// mark writes the end mark, in a goroutine of its own: the write may wait, and the lock of remote
// peers must not.
func (f *remotePeer) mark(s *stream) {
	t := f.t
	t.readers.Go(func() {
		if err := s.mark(t.ctx); err != nil && s.kept != nil {
			t.fmu.Lock()
			defer t.fmu.Unlock()
			if !t.stopped {
				f.lostStream(s, err)
			}
		}
	})
}

// stopStream ends the stream. When its reader has taken what it had read, the upgrade hears of it.
func (f *remotePeer) stopStream() {
	s := f.stream
	if s == nil {
		return
	}
	if s.stop(errMoved); !s.reading {
		f.step(upgrade.Event{Kind: upgrade.Stopped, Token: s.token, Have: s.came})
	}
}

// close closes the stream, if there is one; nil: for no fault.
func (f *remotePeer) close(why error) {
	if why == nil {
		why = net.ErrClosed
	}
	if f.stream != nil {
		f.stream.fail(why)
		f.stream = nil
	}
}

// read reads the stream, in a goroutine of its own.
func (f *remotePeer) read(s *stream) {
	t := f.t
	s.reading = true
	t.readers.Go(func() {
		came, err := s.receive(f.rank, t.in, &t.memory)
		t.fmu.Lock()
		defer t.fmu.Unlock()
		s.reading = false
		s.came += came
		if t.stopped {
			return
		}
		if f.stream == s && f.upgrade.Resuming() {
			f.step(upgrade.Event{Kind: upgrade.Stopped, Token: s.token, Have: s.came})
			return
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if errors.Is(err, errEndMark) {
			f.step(upgrade.Event{Kind: upgrade.EndRead, Token: s.token})
			return
		}
		f.lostStream(s, err)
	})
}

// lostStream says that a stream has failed, with what was on it.
func (f *remotePeer) lostStream(s *stream, err error) {
	if s.start != f.t.start(f.rank) {
		return
	}
	kept := s.kept != nil
	gone := errors.Is(err, io.EOF) || !kept && isReset(err)
	f.step(upgrade.Event{Kind: upgrade.Lost, Token: s.token, Why: err, PeerEnded: gone, Over: f.dead != nil,
		Kept: kept})
}

// byStream writes a message to the pair's stream. Not done: it has to go another way.
func (f *remotePeer) byStream(ctx context.Context, s *stream, m []byte) (done bool, err error) {
	number, err := s.send(ctx, m)
	if err == nil {
		f.t.count(func(s *sums) { s[job.CountStreamed]++ })
	}
	if err == nil || ctx.Err() != nil && number == 0 {
		f.t.fmu.Lock()
		f.drained() // the kernel has it; there is no acknowledgement to wait for
		f.t.fmu.Unlock()
		return true, err
	}
	f.t.fmu.Lock()
	defer f.t.fmu.Unlock()
	f.lostStream(s, err)
	if s.kept != nil {
		return f.resumed(ctx, s, number)
	}
	return true, f.verdict(ctx, s)
}

// verdict waits until it is known what became of a peer whose stream has failed, and says it. The
// caller holds the lock of remote peers.
func (f *remotePeer) verdict(ctx context.Context, s *stream) error {
	t := f.t
	for f.limbo && !t.stopped {
		if err := f.waitNews(ctx); err != nil {
			return err
		}
	}
	if err := t.sinceRestart(f.rank, s); err != nil {
		return err
	}
	return f.dead
}

// busy reports whether a sender is at work: one that comes later finds what was decided.
func (f *remotePeer) busy() bool { return len(f.turn) > 0 }

// rest closes the connection if it is idle; a stream is given up first.
func (f *remotePeer) rest() {
	if f.upgrade.Kept() {
		f.step(upgrade.Event{Kind: upgrade.Rest, Busy: f.busy()})
		return
	}
	f.t.step(f, peer.Event{Kind: peer.Rest})
}
