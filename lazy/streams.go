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

// makeOffer asks the fabric for an offer that the peer can dial. It returns the event that answers the effect
// MakeOffer.
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

// gotStream starts to use a stream on which both sides have proved their identity.
func (f *remotePeer) gotStream(s fabric.Stream, token peer.Token) {
	f.stream = newStream(s, token, f.t.start(f.rank))
	f.stream.spin = f.t.cfg.Spin
	f.t.count(func(s *sums) { s[job.CountStreams]++ })
	kept := f.t.secondary != nil && !isSecond(token) && f.stream.keep()
	if f.t.step(f, peer.Event{Kind: peer.Connected, Token: token, Kept: kept}); kept {
		s := f.stream // report a failure even if no goroutine reads or writes
		s.kept.conn.OnFail(func(err error) {
			f.t.fmu.Lock()
			defer f.t.fmu.Unlock()
			if !f.t.stopped {
				f.lostStream(s, err)
			}
		})
	}
}

// mark writes the end mark in a goroutine of its own, because the write may block and the caller holds Table.fmu.
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

// close closes the stream, if there is one, with the error why. If why is nil, close uses net.ErrClosed.
func (f *remotePeer) close(why error) {
	if why == nil {
		why = net.ErrClosed
	}
	if f.stream != nil {
		f.stream.fail(why)
		f.stream = nil
	}
}

// read starts a goroutine that reads the stream.
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

// finishRead tells the Peer that the reader of a stream has ended with err. It does nothing if this rank has closed the
// stream.
func (f *remotePeer) finishRead(s *stream, err error) {
	switch {
	case errors.Is(err, errEndMark):
		f.t.step(f, peer.Event{Kind: peer.EndRead, Token: s.token, Have: s.came})
	case !errors.Is(err, net.ErrClosed):
		f.lostStream(s, err)
	}
}

// lostStream tells the Peer that a stream has failed with err, unless the peer was restarted since the stream was
// opened.
func (f *remotePeer) lostStream(s *stream, err error) {
	if f.departed || s.start != f.t.start(f.rank) {
		return
	}
	kept := s.kept != nil
	gone := errors.Is(err, io.EOF) || !kept && isReset(err)
	f.t.step(f, peer.Event{Kind: peer.Lost, Token: s.token, Why: err, PeerEnded: gone, Over: f.dead != nil,
		Kept: kept})
}

// dialTime is the maximum time in which a dialed stream must be up. After it, the attempt has failed.
const dialTime = 10 * time.Second

// dial dials the peer f for the stream with the given token, in a goroutine of its own, and passes the result to the
// Peer.
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
		late := !f.awaits(token) // another attempt has begun, or no stream is wanted any more
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

// moved cancels a dial on the first network if the pair uses the second one now.
func (f *remotePeer) moved() {
	if f.peer.Secondary() && f.dialing != nil && !isSecond(f.dialToken) {
		f.dialing()
	}
}
