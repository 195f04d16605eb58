package lazy

import (
	"context"
	"errors"
	"time"

	"ibrun/fabric"
	"ibrun/lazy/peer"
)

// A rank with two networks goes on by the second one while the first does not work
// (docs/dev/decisions/0023-second-network.md).

var errMoved = errors.New("the pair goes by another network")

// leaveAgain is how long a pair waits before it asks once more to give up a stream of the second
// network, for which the other side was at work.
const leaveAgain = 20 * time.Millisecond

// Down says that the first network of this rank does not work for now.
func (s sink) Down(err error) (spared bool) {
	t := s.t
	t.fmu.Lock()
	defer t.fmu.Unlock()
	if t.stopped || t.secondary == nil {
		return false
	}
	t.firstDown(err)
	return true
}

// Up says that it works again.
func (s sink) Up() {
	t := s.t
	t.fmu.Lock()
	defer t.fmu.Unlock()
	if t.stopped || t.down == nil {
		return
	}
	t.mu.Lock()
	t.down = nil
	t.mu.Unlock()
	for _, f := range t.remotePeers() {
		t.step(f, peer.Event{Kind: peer.Recovered})
	}
	if t.cfg.Changed != nil {
		t.cfg.Changed(nil)
	}
}

// firstDown takes all pairs to the second network. The caller holds the lock of remote peers.
func (t *Table) firstDown(err error) {
	first := t.down == nil
	t.mu.Lock()
	t.down = err
	t.mu.Unlock()
	for _, f := range t.remotePeers() {
		t.step(f, peer.Event{Kind: peer.Down})
		f.leaveFirst(err)
	}
	if first && t.cfg.Changed != nil {
		t.cfg.Changed(err)
	}
}

// leaveFirst ends what a pair has under way on the first network.
func (f *remotePeer) leaveFirst(why error) {
	if s := f.stream; s != nil && s.kept != nil {
		f.t.step(f, peer.Event{Kind: peer.Lost, Token: s.token, Why: why, Kept: true})
	}
	if f.dialing != nil && !isSecond(f.dialToken) {
		f.dialing()
	}
}

// moved ends a dial on the first network when the pair goes by the second one.
func (f *remotePeer) moved() {
	if f.peer.Secondary() && f.dialing != nil && !isSecond(f.dialToken) {
		f.dialing()
	}
}

// leaveSecond gives a stream of the second network up when the pair is back on the first. It is
// called when no sender has been told to use it, unless busy.
func (f *remotePeer) leaveSecond(busy bool) {
	s := f.stream
	if s == nil || f.t.secondary == nil || !isSecond(s.token) || f.peer.Secondary() || !f.peer.HasStream() ||
		time.Since(f.left) < leaveAgain {
		return
	}
	if _, second := f.peer.Addresses(); f.peer.Address() == second {
		return // it has no other
	}
	f.left = time.Now()
	f.t.step(f, peer.Event{Kind: peer.Rest, Busy: busy})
}

// isSecond reports whether a stream is of the second network, which is the lowest bit of its token.
func isSecond(token peer.Token) bool { return token[len(token)-1]&1 == 1 }

// dialAddress is where a stream is dialled: by the network of the offer, whose address may have to
// be asked for first.
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

// resumed waits until it is known what of a stream that has failed goes another way. Done: the
// message of that number has arrived or will, or the error says why not. The caller holds the lock
// of remote peers.
func (f *remotePeer) resumed(ctx context.Context, s *stream, number uint64) (done bool, err error) {
	t := f.t
	if number > 0 && s.holds(number) && (f.stream == s || s.resumed) {
		return true, nil // it goes with the others that are kept
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

func (s *stream) holds(number uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept.holds(number)
}
