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
)

// makeOffer lets the peer dial. It returns the answer to the effect MakeOffer.
func (f *remotePeer) makeOffer() peer.Event {
	way := f.t.by(f.peer.Address())
	offer, err := way.Offer()
	if err != nil {
		return peer.Event{Kind: peer.OfferFailed, Why: err}
	}
	f.t.tokens += 2
	token := f.t.tokens &^ 1
	if way.Tuple().Kind.Ethernet() {
		token |= 1
	}
	ev := peer.Event{Kind: peer.OfferMade, Msg: offer}
	binary.BigEndian.PutUint64(ev.Token[:], token)
	return ev
}

// gotStream takes over a stream that both sides have proved.
func (f *remotePeer) gotStream(s fabric.Stream, token peer.Token) {
	f.stream = newStream(s, token, f.t.start(f.rank))
	f.stream.spin = f.t.cfg.Spin
	f.t.count(func(s *sums) { s[job.CountStreams]++ })
	kept := f.t.secondary != nil && !isSecond(token) && f.stream.keep()
	if f.t.step(f, peer.Event{Kind: peer.Connected, Token: token, Kept: kept}); kept {
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
	t.readers.Go(func() {
		came, err := s.receive(f.rank, t.in, &t.memory)
		t.fmu.Lock()
		defer t.fmu.Unlock()
		s.came += came
		if t.stopped {
			return
		}
		if f.stream != s || !f.peer.Resuming() {
			f.finishRead(s, err)
		}
		if f.stream == s && f.peer.Resuming() {
			t.step(f, peer.Event{Kind: peer.Stopped, Token: s.token, Have: s.came})
		}
	})
}

// finishRead tells the peer how the reading of a stream has ended.
func (f *remotePeer) finishRead(s *stream, err error) {
	switch {
	case errors.Is(err, errEndMark):
		f.t.step(f, peer.Event{Kind: peer.EndRead, Token: s.token, Have: s.came})
	case !errors.Is(err, net.ErrClosed):
		f.lostStream(s, err)
	}
}

// lostStream says that a stream has failed, with what was on it.
func (f *remotePeer) lostStream(s *stream, err error) {
	if f.departed || s.start != f.t.start(f.rank) {
		return
	}
	kept := s.kept != nil
	gone := errors.Is(err, io.EOF) || !kept && isReset(err)
	f.t.step(f, peer.Event{Kind: peer.Lost, Token: s.token, Why: err, PeerEnded: gone, Over: f.dead != nil,
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
		f.t.restIfCrowded()
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
func (f *remotePeer) rest() { f.t.step(f, peer.Event{Kind: peer.Rest, Busy: f.busy()}) }
