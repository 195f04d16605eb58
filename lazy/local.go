package lazy

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"ibrun/lazy/upgrade"
)

// localPeer is a peer on the same node: a socket pair that the agent makes when one
// of the two asks for it.
//
//	(nothing) --send--> asked --the agent's answer--> open --end of stream--> over
//	(nothing) --the agent's answer--> open
type localPeer struct {
	rank    uint32
	asking  sync.Once
	decided sync.Once
	open    chan struct{} // closed when s or err is there
	s       *stream
	err     error
}

func (t *Table) localPeer(rank uint32) *localPeer {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.nears[rank]
	if n == nil {
		n = &localPeer{rank: rank, open: make(chan struct{})}
		t.nears[rank] = n
		if t.closed { // since the caller looked
			n.decide(nil, ErrClosed)
		}
	}
	return n
}

// ask asks the agent for the socket, once.
func (n *localPeer) ask(t *Table) {
	n.asking.Do(func() {
		if err := t.cfg.Resolver.AskPair(n.rank); err != nil {
			n.decide(nil, err)
		}
	})
}

// decide ends the wait for the socket. The first outcome stays; it reports
// whether this was the first.
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
	s := newStream(c, upgrade.Token{}, t.start(rank))
	s.spin = t.cfg.Spin
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || !n.decide(s, nil) {
		c.Close()
		return
	}
	t.count(func(s *sums) { s[countPeers]++; s[countLocal]++ })
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

// try is send without waiting for anything but the copy into the socket.
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
	select {
	case n.s.turn <- struct{}{}:
	default:
		return ErrFull
	}
	taken, err := n.s.try(m)
	if taken {
		return nil
	}
	<-n.s.turn
	if err != nil {
		if t.cfg.Restarts {
			t.doubt(n)
			return ErrFull // until it is known what became of the peer
		}
		return t.about(n.rank, ended(err))
	}
	return ErrFull
}

// close lets what was written arrive.
func (n *localPeer) close() {
	n.decide(nil, ErrClosed)
	if n.s != nil {
		n.s.fail(net.ErrClosed)
	}
}

// ended puts the end of a peer's socket into words.
func ended(err error) error {
	switch {
	case errors.Is(err, io.EOF) || isReset(err):
		return ErrEnded
	case errors.Is(err, os.ErrDeadlineExceeded): // the fabric's: this package sets none after the proof
		return errSilent
	}
	return err
}
