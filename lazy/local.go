package lazy

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"ibrun/internal/job"
	"ibrun/lazy/peer"
)

// localPeer is a peer on the same node. The agent connects two ranks by a socket pair when one of them asks for it.
//
//	new --send--> asked --the agent's answer--> open --end of stream--> closed
//	new --the agent's answer to the other rank--> open
type localPeer struct {
	rank    uint32        // slot of the peer
	asking  sync.Once     // makes ask send only one request
	decided sync.Once     // makes only the first call of decide take effect
	open    chan struct{} // closed when s or err is set
	s       *stream
	err     error // error because of which the pair has no stream, or nil
}

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

// ask asks the agent for the socket. Only the first call does so.
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

// try is like send, but returns ErrFull instead of waiting for the socket, for another sender, or for space.
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

// close closes the socket. Messages that have been written before still arrive.
func (n *localPeer) close() {
	n.decide(nil, ErrClosed)
	if n.s != nil {
		n.s.fail(net.ErrClosed)
	}
}

// ended converts an error of a stream to the cause of a PeerError: ErrEnded if the peer has closed the stream, and
// errSilent if the stream has timed out. It returns any other error unchanged.
func ended(err error) error {
	switch {
	case errors.Is(err, io.EOF) || isReset(err):
		return ErrEnded
	case errors.Is(err, os.ErrDeadlineExceeded): // set by the fabric: slept handles the deadlines of this package
		return errSilent
	}
	return err
}
