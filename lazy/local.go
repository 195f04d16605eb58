package lazy

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"ibrun/internal/job"
	"ibrun/lazy/peer"
)

// localPeer returns the peer with the given slot on this node. The first call for a peer creates it.
func (t *Table) localPeer(rank uint32) *localPeer {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.nears[rank]
	if n == nil {
		n = &localPeer{rank: rank, open: make(chan struct{})}
		t.nears[rank] = n
		if t.closed { // Close may have run after the caller's check
			n.decide(nil, ErrClosed)
		}
	}
	return n
}

// ask asks the agent for a socket to the peer. Calls after the first one do nothing.
func (n *localPeer) ask(t *Table) {
	n.asking.Do(func() {
		if err := t.cfg.Resolver.AskPair(n.rank); err != nil {
			n.decide(nil, err)
		}
	})
}

// decide sets the stream of n, or the error if there is none, and unblocks senders. Only the first call has an effect;
// decide reports whether this was the first.
func (n *localPeer) decide(s *stream, err error) (first bool) {
	n.decided.Do(func() {
		n.s, n.err, first = s, err, true
		close(n.open)
	})
	return first
}

// Paired handles the agent's answer to Resolver.AskPair. c is a connection to a rank of this node. If failure is
// ErrEnded, ErrFailed or ErrRank, there is no connection and c is nil. The agent also passes the other end of the
// connection to the other rank, which has not asked for it.
func (t *Table) Paired(rank uint32, c net.Conn, failure error) {
	n := t.localPeer(rank)
	if failure != nil {
		err := t.about(rank, failure)
		n.decide(nil, err)
		t.in.lose(rank, err)
		return
	}
	s := newStream(c, peer.Token{}, t.start(rank))
	s.spin = t.cfg.Spin
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || !n.decide(s, nil) {
		c.Close()
		return
	}
	t.count(func(s *sums) { s[job.CountPeers]++; s[job.CountLocal]++ })
	t.readers.Go(func() {
		_, err := s.receive(rank, t.in, &t.memory)
		if _, restarted := err.(*RestartError); restarted || errors.Is(err, net.ErrClosed) {
			return
		}
		if t.cfg.Restarts {
			t.doubt(n)
			return
		}
		if errors.Is(err, io.EOF) {
			err = ErrEnded
		}
		t.in.lose(rank, t.about(rank, err))
	})
}

// send writes m to the socket. It asks for the socket and waits for it if there is none yet.
func (n *localPeer) send(ctx context.Context, t *Table, m []byte) error {
	began := time.Time{}
	select {
	case <-n.open:
	default:
		began = time.Now()
		n.ask(t)
		select {
		case <-n.open:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if n.err != nil {
		return n.failure(t)
	}
	if _, err := n.s.send(ctx, m); err != nil {
		if ctx.Err() != nil {
			return err
		}
		return n.verdict(ctx, t, err)
	}
	if !began.IsZero() {
		t.latency(time.Since(began))
	}
	return nil
}

// try is like send, but returns ErrFull instead of waiting for the socket, for another sender, or for space in the
// socket buffer.
func (n *localPeer) try(t *Table, m []byte) error {
	select {
	case <-n.open:
	default:
		n.ask(t)
		return ErrFull
	}
	if n.err != nil {
		return n.failure(t)
	}
	taken, err := n.s.try(m)
	switch {
	case taken:
		return nil
	case err == nil:
		return ErrFull
	case t.cfg.Restarts:
		t.doubt(n)
		return ErrFull // doubt has asked the agent whether the peer was restarted
	}
	return t.about(n.rank, ended(err))
}

// failure returns the error because of which n has no socket. If that is a *RestartError, the restart counts as
// reported to the program.
func (n *localPeer) failure(t *Table) error {
	if _, restarted := n.err.(*RestartError); restarted {
		t.in.claimOf(n.rank)
	}
	return n.err
}

// verdict returns the error of a send on a socket that has failed. If ranks may be restarted, it first asks the agent
// whether the peer was restarted, and waits for the answer.
func (n *localPeer) verdict(ctx context.Context, t *Table, failure error) error {
	if !t.cfg.Restarts {
		return t.about(n.rank, ended(failure))
	}
	if err := t.sinceRestart(n.rank, n.s); err != nil {
		return err
	}
	t.doubt(n)
	next := t.localPeer(n.rank)
	next.ask(t)
	select {
	case <-next.open:
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := t.sinceRestart(n.rank, n.s); err != nil {
		return err
	}
	if next.err != nil {
		return next.err
	}
	return t.about(n.rank, ended(failure))
}

// doubt asks the agent for a new socket to a local peer whose socket has ended. The answer shows whether the peer was
// restarted or has ended.
func (t *Table) doubt(n *localPeer) {
	t.mu.Lock()
	current := t.nears[n.rank] == n && !t.closed
	if current {
		delete(t.nears, n.rank)
	}
	t.mu.Unlock()
	if current {
		t.localPeer(n.rank).ask(t)
	}
}

// drop closes the socket, because the peer was restarted. err is the *RestartError.
func (n *localPeer) drop(err error) {
	if !n.decide(nil, err) && n.s != nil {
		n.s.fail(err)
	}
}

// close closes the socket. Messages that have been written before still arrive.
func (n *localPeer) close() {
	n.decide(nil, ErrClosed)
	if n.s != nil {
		n.s.fail(net.ErrClosed)
	}
}
