package lazy

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"ibrun/fabric"
	"ibrun/internal/job"
	"ibrun/lazy/peer"
)

// helloKind is the kind of the envelope that opens a stream in each direction.
const helloKind = 15

// helloTime is how long a stranger has to prove that it is none.
const helloTime = 5 * time.Second

// helloWaits is how many waits that time is made of. A process that was stopped finds only the
// wait that it was in passed when it goes on, and what came meanwhile in the next one.
const helloWaits = 5

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

// awaits reports whether the stream of a token is still wanted; the caller holds the lock of remote peers.
func (f *remotePeer) awaits(token peer.Token) bool {
	return !f.t.stopped && !f.departed && f.peer.Awaits(token)
}

// A peer that hangs up before it has heard which rank dials may be crowded by strangers. It
// is dialled again after firstPause, then after twice that, and so on.
const (
	firstPause = 10 * time.Millisecond
	lastPause  = 500 * time.Millisecond
)

// connect dials a peer until both sides have proved themselves.
func (t *Table) connect(
	ctx context.Context, f *remotePeer, to fabric.Tuple, offer []byte, token peer.Token,
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
		wanted := f.awaits(token)
		t.fmu.Unlock()
		if !wanted {
			return nil, err
		}
	}
}

// prove shows the listener which rank dials, and takes its proof.
func (t *Table) prove(s fabric.Stream, rank uint32, token peer.Token) error {
	_ = s.SetDeadline(time.Now().Add(helloTime)) // if s is closed, the next call on s returns the error
	if err := t.sendHello(s, rank, token); err != nil {
		return err
	}
	e, body, err := t.receiveHello(s)
	if err == nil && (e.Src != rank || peer.Token(body) != token) {
		err = fabric.ErrForged
	}
	_ = s.SetDeadline(time.Time{})
	return err
}

func (t *Table) sendHello(s fabric.Stream, rank uint32, token peer.Token) error {
	return write(s, t.cfg.Seal.Append(nil, fabric.Envelope{Kind: helloKind, Dst: rank}, token[:]))
}

func (t *Table) receiveHello(s fabric.Stream) (fabric.Envelope, []byte, error) {
	b := make([]byte, fabric.Overhead+peer.TokenLen)
	for n, waits := 0, 1; n < len(b); waits++ {
		_ = s.SetDeadline(time.Now().Add(helloTime / helloWaits))
		got, err := io.ReadFull(s, b[n:])
		if n += got; err != nil && (waits == helloWaits || !errors.Is(err, os.ErrDeadlineExceeded)) {
			return fabric.Envelope{}, nil, err
		}
	}
	e, body, err := t.cfg.Seal.Open(b)
	if err == nil && e.Kind != helloKind {
		err = fabric.ErrForged
	}
	return e, body, err
}

// accept takes a stream from a stranger, in a goroutine of its own.
func (t *Table) accept(g *guest) {
	s := g.stream
	e, body, err := t.receiveHello(s)
	t.lobby.leave(g)
	if err != nil || e.Src >= t.layout().Ranks() || t.isNear(e.Src) {
		t.count(func(s *sums) { s[job.CountStrangers]++ })
		s.Close()
		return
	}
	token := peer.Token(body)
	t.fmu.Lock()
	defer t.fmu.Unlock()
	f := t.remotePeer(e.Src)
	if !f.awaits(token) {
		s.Close()
		return
	}
	if t.sendHello(s, f.rank, token) != nil {
		s.Close() // it had to leave the lobby, or hung up; the dialler tries again or gives up
		return
	}
	_ = s.SetDeadline(time.Time{})
	f.gotStream(s, token)
}
