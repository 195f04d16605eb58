package lazy

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"time"

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

// dialTime is how long a stream may take to come up before datagrams do its work.
const dialTime = 10 * time.Second

// dial opens the stream in a goroutine of its own.
func (t *Table) dial(f *remotePeer, token peer.Token, offer []byte) {
	to := f.peer.Address()
	ctx, cancel := context.WithTimeout(t.ctx, dialTime)
	f.dialing, f.dialToken = cancel, token
	t.readers.Go(func() {
		defer cancel()
		var s fabric.Stream
		var err error
		if t.secondary != nil {
			to, err = f.dialAddress(ctx, token)
		}
		if err == nil {
			s, err = t.connect(ctx, f, to, offer, token)
		}
		t.fmu.Lock()
		defer t.fmu.Unlock()
		if f.dialToken == token {
			f.dialing = nil
		}
		late := !f.awaits(token) // another attempt has begun, or none is wanted
		switch {
		case late && err == nil:
			s.Close()
		case late:
		case err != nil:
			t.step(f, peer.Event{Kind: peer.DialFailed, Token: token, Why: err})
		default:
			f.gotStream(s, token)
		}
	})
}

// moved ends a dial on the first network when the pair goes by the second one.
func (f *remotePeer) moved() {
	if f.peer.Secondary() && f.dialing != nil && !isSecond(f.dialToken) {
		f.dialing()
	}
}
