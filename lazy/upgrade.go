package lazy

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"time"

	"ibrun/fabric"
	"ibrun/job"
	"ibrun/lazy/peer"
)

// upgrade is a pair's way from datagrams to a stream. The lower rank dials, the
// higher one makes the offer, whoever wants the stream; each direction changes
// when its own sender says so, in the order of the messages.
//
//	none --want--> wanted --OFFER, dial, proof--> open --SWITCH--> this direction moved
type upgrade struct {
	started    bool // wanted or offered: the pair is not closed when idle, also not by a FIN that is older than the offer
	failures   int  // attempts that failed in this connection
	impossible bool // as many as are made: datagrams carry everything
	why        error
	stream     *stream
	token      [tokenLen]byte // what the dialler proves to have been told
	offer      []byte         // what goes with it, of who made the offer
	asked      int            // the connection, by remotePeer.opens, in which WANT or OFFER was said last
	bulk       bool           // more waited for acknowledgement than datagrams are good for: our direction moves when it can
	sending    bool           // our direction has moved
	switched   bool           // the peer's has, and we wait for the stream
	receiving  bool           // the peer's has
	drain      draining
}

const tokenLen = 8

// Controls, the first byte of a control message.
const (
	ctlWant   = 1 // lower rank to higher: offer
	ctlOffer  = 2 // token, offer
	ctlGiveUp = 4 // token, why: the attempt failed

	// These have the token of the stream that they are about.
	ctlSwitch   = 3 // the sender's next message is on the stream
	ctlLeave    = 5 // the stream is not needed any more
	ctlStay     = 6 // it is: answer to LEAVE
	ctlReturned = 7 // your direction is read to its end mark

	ctlBroken = 8 // the stream failed here, with what was on it
)

// helloKind is the kind of the envelope that opens a stream in each direction.
const helloKind = 15

// helloTime is how long a stranger has to prove that it is none.
const helloTime = 5 * time.Second

// dialTime is how long a stream may take to come up before datagrams do its work.
const dialTime = 10 * time.Second

func (p *upgrade) reset() {
	if p.stream != nil {
		p.stream.fail(net.ErrClosed)
	}
	*p = upgrade{}
}

// rested is for a connection that was closed because it was idle. An offer may
// be staged for the next one: its token stays good.
func (p *upgrade) rested() {
	if p.stream != nil {
		p.reset()
	}
	p.failures, p.impossible = 0, false
}

// want asks for a stream, once.
func (f *remotePeer) want() {
	if f.upgrade.started || f.upgrade.impossible {
		return
	}
	if f.t.cfg.Rank < f.rank {
		f.upgrade.started = true
		f.ask()
		return
	}
	f.makeOffer()
}

// ask says WANT or OFFER, in this connection or in the next.
func (f *remotePeer) ask() {
	f.upgrade.asked = f.opens
	if !f.up {
		f.upgrade.asked++
	}
	msg := []byte{ctlWant}
	if f.upgrade.offer != nil {
		msg = append(append([]byte{ctlOffer}, f.upgrade.token[:]...), f.upgrade.offer...)
	}
	f.t.step(f, peer.Event{Kind: peer.Control, Msg: msg})
}

// askAgain is for a connection that opens: who was asked in the one before may
// be another epoch now, or have forgotten. Whoever has not is not
// disturbed, as the token is the same.
func (f *remotePeer) askAgain() {
	if m := &f.upgrade; m.started && m.stream == nil && m.asked != 0 && m.asked < f.opens {
		f.ask()
	}
}

// makeOffer lets the peer dial.
func (f *remotePeer) makeOffer() {
	if f.upgrade.token != [tokenLen]byte{} {
		return
	}
	f.upgrade.started = true
	offer, err := f.t.by(f.peer.Address()).Offer()
	if err != nil {
		f.giveUp(err)
		return
	}
	f.t.tokens++
	binary.BigEndian.PutUint64(f.upgrade.token[:], f.t.tokens)
	f.upgrade.offer = offer
	f.ask()
}

// attempts is how many a connection makes for a stream. The first may fail because
// one side stood still, stopped or frozen; the second does not begin before
// that side has answered the first one's end.
const attempts = 2

// giveUp ends an attempt on both sides. The token says which, as what ends an
// older one may arrive when the next is under way.
func (f *remotePeer) giveUp(why error) {
	token := f.upgrade.token
	f.withoutStream(why)
	text := why.Error()
	f.t.step(f, peer.Event{Kind: peer.Control, Msg: slices.Concat([]byte{ctlGiveUp}, token[:], []byte(text[:min(len(text), mostWhy)]))})
}

// mostWhy is the most of a reason, in bytes, that goes with a GIVEUP.
const mostWhy = 512

// gaveUp takes the peer's GIVEUP, unless our direction has moved: then the stream
// itself will tell, as messages on it are lost.
func (f *remotePeer) gaveUp(token, why []byte) {
	if bytes.Equal(token, f.upgrade.token[:]) && !f.upgrade.sending {
		f.withoutStream(fmt.Errorf("the other side could not: %s", why))
	}
}

// withoutStream ends an attempt. After the last one the pair goes on without a
// stream until it has rested.
func (f *remotePeer) withoutStream(why error) {
	failures := f.upgrade.failures + 1
	f.upgrade.reset()
	f.upgrade.failures, f.upgrade.impossible, f.upgrade.why = failures, failures >= attempts, why
	f.notify()
}

// move sends our direction over the stream from the next message on.
func (f *remotePeer) move() *stream {
	f.upgrade.sending = true
	f.t.count(func(s *sums) { s[job.CountMoves]++ })
	f.say(ctlSwitch)
	return f.upgrade.stream
}

// say sends a control about the pair's stream, which its token names: what was
// said to an earlier epoch of the peer and had not left may still reach the
// next one, and is not about the stream that it has.
func (f *remotePeer) say(control byte) {
	f.t.step(f, peer.Event{Kind: peer.Control, Msg: append([]byte{control}, f.upgrade.token[:]...)})
}

// isAbout reports whether a control is about the stream that the pair has or makes.
func (u *upgrade) isAbout(m []byte) bool {
	return len(m) == 1+tokenLen && u.token != [tokenLen]byte{} && bytes.Equal(m[1:], u.token[:])
}

// pays reports whether a message that a datagram could carry is better sent by a
// stream: more waited than datagrams are good for, or the pair has said enough
// for Config.UpgradeThreshold.
func (f *remotePeer) pays(size int) bool {
	threshold := f.t.cfg.UpgradeThreshold
	if !f.up || f.upgrade.drain.ours {
		return false
	}
	if threshold > 0 {
		f.offered += 1 + size/thresholdBytes
	}
	return f.upgrade.bulk || threshold > 0 && f.offered >= threshold
}

// byStream writes a message to the pair's stream.
func (f *remotePeer) byStream(ctx context.Context, s *stream, m []byte) error {
	err := s.send(ctx, m)
	if err == nil {
		f.t.count(func(s *sums) { s[job.CountStreamed]++ })
	}
	if err == nil || ctx.Err() != nil {
		f.t.fmu.Lock()
		f.drained() // the kernel has it; there is no acknowledgement to wait for
		f.t.fmu.Unlock()
		return err
	}
	f.t.fmu.Lock()
	defer f.t.fmu.Unlock()
	f.lostStream(s, err)
	return f.dead
}

// control takes a control message of the peer.
func (f *remotePeer) control(m []byte) {
	t := f.t
	t.step(f, peer.Event{Kind: peer.Taken, N: len(m)})
	switch {
	case len(m) == 0:
	case m[0] == ctlWant && t.cfg.Rank > f.rank:
		f.makeOffer()
	case m[0] == ctlOffer && len(m) > 1+tokenLen && t.cfg.Rank < f.rank && f.upgrade.stream == nil && !bytes.Equal(m[1:1+tokenLen], f.upgrade.token[:]):
		f.upgrade.started, f.upgrade.impossible = true, false // of an older attempt, whose end the peer has not heard of
		copy(f.upgrade.token[:], m[1:])
		t.dial(f, m[1+tokenLen:])
	case m[0] == ctlGiveUp && len(m) > tokenLen:
		f.gaveUp(m[1:1+tokenLen], m[1+tokenLen:])
	case !f.upgrade.isAbout(m):
	case m[0] == ctlSwitch:
		f.upgrade.switched = true
		f.startReceiving()
	case m[0] == ctlLeave:
		f.heardLeave()
	case m[0] == ctlStay:
		f.upgrade.drain.ours, f.upgrade.drain.theirs = false, false
		f.notify()
	case m[0] == ctlReturned:
		f.returned()
	case m[0] == ctlBroken && f.upgrade.stream != nil:
		f.upgrade.stream.fail(errBroken)
		f.kill(errBroken)
		t.in.alarm(f.dead)
	}
}

// dial opens the stream in a goroutine of its own.
func (t *Table) dial(f *remotePeer, offer []byte) {
	to, token := f.peer.Address(), f.upgrade.token
	t.readers.Go(func() {
		ctx, cancel := context.WithTimeout(t.ctx, dialTime)
		defer cancel()
		s, err := t.connect(ctx, f, to, offer, token)
		t.fmu.Lock()
		defer t.fmu.Unlock()
		late := t.stopped || f.upgrade.token != token // another attempt has begun, or none is wanted
		switch {
		case late && err == nil:
			s.Close()
		case late:
		case err != nil:
			f.giveUp(err)
		default:
			f.gotStream(s)
		}
	})
}

// A peer that hangs up before it has heard who dials may be crowded by strangers. It
// is dialled again after firstPause, then after twice that, and so on.
const (
	firstPause = 10 * time.Millisecond
	lastPause  = 500 * time.Millisecond
)

// connect dials a peer until both sides have proved themselves.
func (t *Table) connect(
	ctx context.Context, f *remotePeer, to fabric.Tuple, offer []byte, token [tokenLen]byte,
) (fabric.Stream, error) {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		s, err := t.by(to).Dial(ctx, to, offer)
		if err != nil {
			return nil, err
		}
		if err = t.prove(s, f.rank, token); err == nil {
			return s, nil
		}
		s.Close()
		if !errors.Is(err, io.EOF) && !isReset(err) {
			return nil, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, err
		}
		t.fmu.Lock()
		wanted := f.upgrade.token == token
		t.fmu.Unlock()
		if !wanted {
			return nil, err
		}
	}
}

// prove shows the listener who dials, and takes its proof.
func (t *Table) prove(s fabric.Stream, rank uint32, token [tokenLen]byte) error {
	deadline(s, helloTime)
	if err := t.sayHello(s, rank, token); err != nil {
		return err
	}
	e, body, err := t.hearHello(s)
	if err == nil && (e.Src != rank || [tokenLen]byte(body) != token) {
		err = fabric.ErrForged
	}
	deadline(s, 0)
	return err
}

func (t *Table) sayHello(s fabric.Stream, rank uint32, token [tokenLen]byte) error {
	return write(s, t.cfg.Seal.Append(nil, fabric.Envelope{Kind: helloKind, Dst: rank}, token[:]))
}

func (t *Table) hearHello(s fabric.Stream) (fabric.Envelope, []byte, error) {
	b := make([]byte, fabric.Overhead+tokenLen)
	if _, err := io.ReadFull(s, b); err != nil {
		return fabric.Envelope{}, nil, err
	}
	e, body, err := t.cfg.Seal.Open(b)
	if err == nil && e.Kind != helloKind {
		err = fabric.ErrForged
	}
	return e, body, err
}

// deadline bounds reads and writes on streams that can be bounded; 0 frees them.
func deadline(s fabric.Stream, d time.Duration) {
	if c, ok := s.(interface{ SetDeadline(time.Time) error }); ok {
		at := time.Time{}
		if d > 0 {
			at = time.Now().Add(d)
		}
		_ = c.SetDeadline(at)
	}
}

// accept takes a stream from a stranger, in a goroutine of its own.
func (t *Table) accept(g *guest) {
	s := g.stream
	deadline(s, helloTime)
	e, body, err := t.hearHello(s)
	t.lobby.leave(g)
	if err != nil || e.Src >= t.cfg.Layout.Ranks() || t.isNear(e.Src) {
		t.count(func(s *sums) { s[job.CountStrangers]++ })
		s.Close()
		return
	}
	token := [tokenLen]byte(body)
	t.fmu.Lock()
	defer t.fmu.Unlock()
	f := t.remotePeer(e.Src)
	if t.stopped || f.upgrade.stream != nil || f.upgrade.token != token || token == [tokenLen]byte{} {
		s.Close()
		return
	}
	if t.sayHello(s, f.rank, token) != nil {
		s.Close() // it had to leave the lobby, or hung up; who dials will do so again or give up
		return
	}
	deadline(s, 0)
	f.gotStream(s)
}

// gotStream takes over a stream that both sides have proved.
func (f *remotePeer) gotStream(s fabric.Stream) {
	f.upgrade.stream, f.upgrade.failures = newStream(s), 0
	f.t.count(func(s *sums) { s[job.CountStreams]++ })
	f.startReceiving()
	f.notify()
}

// startReceiving reads the stream once the peer has moved to it.
func (f *remotePeer) startReceiving() {
	if !f.upgrade.switched || f.upgrade.stream == nil || f.upgrade.receiving {
		return
	}
	f.upgrade.receiving = true
	s, t := f.upgrade.stream, f.t
	t.readers.Go(func() {
		err := s.receive(f.rank, t.in, &t.memory)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		t.fmu.Lock()
		defer t.fmu.Unlock()
		if t.stopped {
			return
		}
		if errors.Is(err, errEndMark) {
			f.readToTheEnd()
			return
		}
		f.lostStream(s, err)
	})
}

var errBroken = errors.New("the stream failed on its side")

// lostStream ends a pair whose stream failed with what was on it. The other side
// may not see that by itself, as a queue pair that only receives hears nothing.
func (f *remotePeer) lostStream(s *stream, err error) {
	fresh := f.dead == nil && f.upgrade.stream == s && !errors.Is(err, io.EOF) && !isReset(err) // of an older one its end has been told
	if fresh {
		f.say(ctlBroken)
	}
	f.kill(ended(err))
	if fresh {
		f.t.in.alarm(f.dead) // the peer runs, and who takes messages of any may wait for what was lost
	}
}

// Broken ends all pairs: the fabric will never work again.
func (s sink) Broken(err error) {
	t := s.t
	t.fmu.Lock()
	defer t.fmu.Unlock()
	if t.stopped {
		return
	}
	t.mu.Lock()
	t.broken = err
	fars := slices.Collect(maps.Values(t.fars))
	t.mu.Unlock()
	for _, f := range fars {
		f.kill(err)
	}
	t.in.alarm(err)
}

// sink takes what the fabric receives.
type sink struct{ t *Table }

func (s sink) Datagram(from fabric.Tuple, b []byte) {
	t := s.t
	e, body, err := t.cfg.Seal.Open(b)
	if err != nil || e.Src >= t.cfg.Layout.Ranks() || t.isNear(e.Src) || e.Kind == helloKind {
		t.count(func(s *sums) { s[job.CountStrangers]++ })
		return
	}
	t.fmu.Lock()
	defer t.fmu.Unlock()
	if t.stopped {
		return
	}
	f := t.remotePeer(e.Src)
	if peer.PacketKind(e.Kind) == peer.PacketReject {
		t.rejects++
	}
	t.step(f, peer.Event{
		Kind: peer.Packet, Packet: peer.PacketKind(e.Kind), Gen: e.Gen,
		SrcEpoch: e.SrcEpoch, DstEpoch: e.DstEpoch, Body: body, Tuple: from, Keep: f.upgrade.started,
	})
}

func (s sink) Accepted(c fabric.Stream) {
	g := s.t.lobby.enter(c, s.t.expected)
	s.t.readers.Go(func() { s.t.accept(g) })
}
