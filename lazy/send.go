package lazy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ibrun/internal/job"
	"ibrun/lazy/peer"
)

// earlyLimit is the maximum number of bytes of messages that wait for connections to peers, over all peers. A single
// longer message is accepted.
const earlyLimit = 64 << 10

// send waits until no other sender is at work, and then until m is sent, queued for sending, or written to the stream.
func (f *remotePeer) send(ctx context.Context, m []byte) error {
	if err := acquire(ctx, f.turn); err != nil {
		return err
	}
	defer func() { <-f.turn }()
	for {
		out, err := f.offer(m)
		if out != nil {
			if done, err := f.byStream(ctx, out, m); done {
				return err
			}
			continue
		}
		if !errors.Is(err, ErrFull) {
			return err
		}
		select {
		case <-f.news:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// try is like send, but returns ErrFull instead of waiting for the peer or for another sender.
func (f *remotePeer) try(m []byte) error {
	select {
	case f.turn <- struct{}{}:
	default:
		return ErrFull
	}
	out, err := f.offer(m)
	if out == nil {
		<-f.turn
		return err
	}
	taken, err := out.try(m)
	<-f.turn
	switch {
	case taken:
		f.t.count(func(s *sums) { s[job.CountStreamed]++ })
		return nil
	case err == nil:
		return ErrFull
	case f.t.cfg.Restarts || out.kept != nil:
		f.t.fmu.Lock()
		defer f.t.fmu.Unlock()
		f.lostStream(out, err)
		return ErrFull // the caller tries again until it is known whether the peer still runs
	}
	return f.t.about(f.rank, ended(err))
}

// offer sends m as a datagram if it fits into the window, or returns the stream to which m must be written. If neither
// is possible now, it returns ErrFull, and f.news gets a value when the caller should try again.
func (f *remotePeer) offer(m []byte) (*stream, error) {
	t := f.t
	t.fmu.Lock()
	defer t.fmu.Unlock()
	if t.stopped {
		return nil, ErrClosed
	}
	if err := f.report(); err != nil {
		return nil, err
	}
	if f.opens == 0 && f.began.IsZero() {
		f.began = time.Now()
	}
	if f.limbo {
		return nil, ErrFull
	}
	f.used = time.Since(t.began)
	f.leaveSecond(false)
	joins := f.joins(m)
	if !joins {
		f.unbundle()
	}
	route := f.peer.Route(len(m), f.used)
	if route == peer.AfterUpgraded {
		f.unbundle() // the messages of the bundle were sent before m
		t.step(f, peer.Event{Kind: peer.Upgrade})
		if route = f.peer.Route(len(m), f.used); route == peer.ByStream {
			t.count(func(s *sums) { s[job.CountMoves]++ })
		}
	}
	switch route {
	case peer.ByStream:
		return f.stream, nil
	case peer.NotNow, peer.AfterUpgraded:
		return nil, ErrFull
	}
	if f.peer.Room() < len(m) { // less than before if the upgrade has staged a control message
		if f.peer.Unacked() == 0 {
			return nil, f.t.about(f.rank, fmt.Errorf("a message of %d bytes needs a stream, and none could be made: %w",
				len(m), f.peer.Why()))
		}
		return nil, ErrFull
	}
	if !f.up {
		if t.early > 0 && t.early+len(m) > earlyLimit {
			t.step(f, peer.Event{Kind: peer.Warm})
			return nil, ErrFull
		}
		f.early += len(m)
		t.early += len(m)
	}
	if joins {
		f.join(m)
		return nil, nil
	}
	t.step(f, peer.Event{Kind: peer.Send, Msg: append(make([]byte, 0, len(m)), m...)})
	return nil, nil
}

// byStream writes m to the stream s of the pair. If done is false, m was not sent and the caller has to call offer
// again.
func (f *remotePeer) byStream(ctx context.Context, s *stream, m []byte) (done bool, err error) {
	number, err := s.send(ctx, m)
	if err == nil {
		f.t.count(func(s *sums) { s[job.CountStreamed]++ })
	}
	if err == nil || ctx.Err() != nil && number == 0 {
		f.t.fmu.Lock()
		f.drained() // the kernel has m, and a stream has no acknowledgements
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

// verdict returns the error of a send on the failed stream s. It first waits while the peer is in limbo. The caller
// holds Table.fmu.
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

// resumed waits until it is known which messages of the failed stream s are sent again. done is true if the message
// with the given number has arrived or is sent again, or if err is set. The caller holds Table.fmu.
func (f *remotePeer) resumed(ctx context.Context, s *stream, number uint64) (done bool, err error) {
	t := f.t
	if number > 0 && s.holds(number) && (f.stream == s || s.resumed) {
		return true, nil // it is sent again with the other retained messages
	}
	for f.stream == s && !t.stopped {
		if err := f.waitNews(ctx); err != nil {
			return true, err
		}
	}
	switch {
	case t.stopped:
		return true, ErrClosed
	case s.resumed:
		return number > 0 && number <= s.peers, nil
	}
	if err := f.report(); err != nil {
		return true, err
	}
	if err := t.sinceRestart(f.rank, s); err != nil {
		return true, err
	}
	return false, nil
}
