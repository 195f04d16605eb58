package lazy

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"ibrun/fabric"
	"ibrun/lazy/peer"
)

// helloKind is the kind of the sealed envelope, the hello, that each side sends first on a stream to prove its
// identity.
const helloKind = 15

// helloTime is the maximum time in which the other side of a new stream has to prove its identity.
const helloTime = 5 * time.Second

// helloWaits is the number of waits of equal length into which receiveHello splits helloTime. If this process is
// stopped for a long time, only the current wait expires. The next wait reads the hello that has arrived meanwhile.
const helloWaits = 5

// awaits reports whether f still needs the stream with the given token. The caller holds Table.fmu.
func (f *remotePeer) awaits(token peer.Token) bool {
	return !f.t.stopped && !f.departed && f.peer.Awaits(token)
}

// A peer hangs up before it has received the hello if it has too many unauthenticated streams. It is dialed again after
// firstPause. Each further pause is twice as long, up to lastPause.
const (
	firstPause = 10 * time.Millisecond
	lastPause  = 500 * time.Millisecond
)

// connect dials the peer f and exchanges hellos with it. If the peer hangs up, connect dials again until ctx ends or
// awaits returns false.
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

// prove sends the hello of this rank on a dialed stream, and checks the hello of the peer, which has accepted the
// stream.
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

// dialAddress returns the address to dial for the stream with the given token, on the network that isSecond derives
// from the token. It waits until the address is known or awaits returns false.
func (f *remotePeer) dialAddress(ctx context.Context, token peer.Token) (to fabric.Tuple, err error) {
	t := f.t
	for {
		t.fmu.Lock()
		first, second := f.peer.Addresses()
		wanted := f.awaits(token)
		t.fmu.Unlock()
		if to = first; isSecond(token) {
			to = second
		}
		if to != (fabric.Tuple{}) || !wanted {
			return to, nil
		}
		select {
		case <-time.After(firstPause):
		case <-ctx.Done():
			return to, errors.New("its address on that network is not known")
		}
	}
}
