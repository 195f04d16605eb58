package lazy

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"ibrun/fabric"
	"ibrun/internal/job"
)

// check returns an error if the job has no rank with the given slot, if m is too long, or if the table is closed.
func (t *Table) check(rank uint32, m []byte) error {
	if rank >= t.layout().Ranks() {
		return fmt.Errorf("rank %d of 0 to %d: %w", rank, t.layout().Ranks()-1, ErrRank)
	}
	if len(m) > MaxMessage {
		return fmt.Errorf("message of %d bytes, at most %d: %w", len(m), MaxMessage, ErrTooLong)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return ErrClosed
	}
	return nil
}

// checkSend is like check, but also returns a *RestartError if rank was restarted and the program has not been told
// yet. So no message reaches a restarted rank before the program knows of the restart.
func (t *Table) checkSend(rank uint32, m []byte) error {
	if err := t.check(rank, m); err != nil {
		return err
	}
	return t.in.claimOf(rank)
}

// Send sends m to a rank. When it returns, it has copied or written m, and the caller may reuse m. Messages from one
// sender to one receiver arrive exactly once and in order. After ctx is done, Send returns the error of ctx, unless it
// has already written a part of a long message. A *PeerError means that the rank cannot be reached any more. Messages
// that earlier calls have accepted may be lost, too.
func (t *Table) Send(ctx context.Context, rank uint32, m []byte) error {
	if err := t.checkSend(rank, m); err != nil {
		return err
	}
	t.sent(m)
	switch {
	case rank == t.cfg.Rank:
		t.in.put(Message{rank, append([]byte(nil), m...)}, 0)
		return nil
	case t.isNear(rank):
		return t.localPeer(rank).send(ctx, t, m)
	}
	if err := t.Reach(); err != nil {
		return t.about(rank, err)
	}
	return t.remotePeer(rank).send(ctx, m)
}

// TrySend is like Send, but does not wait for the other rank. It returns ErrFull if it cannot accept the message now.
// If there is no connection yet, TrySend starts to connect. It may wait for Reach.
func (t *Table) TrySend(rank uint32, m []byte) (err error) {
	if err := t.checkSend(rank, m); err != nil {
		return err
	}
	switch {
	case rank == t.cfg.Rank:
		t.in.put(Message{rank, append([]byte(nil), m...)}, 0)
	case t.isNear(rank):
		err = t.localPeer(rank).try(t, m)
	default:
		if err = t.Reach(); err != nil {
			return t.about(rank, err)
		}
		err = t.remotePeer(rank).try(m)
	}
	if err == nil {
		t.sent(m)
	}
	return err
}

// sent counts a message that Send or TrySend accepts.
func (t *Table) sent(m []byte) {
	t.count(func(s *sums) { s[job.CountMessages]++; s[job.CountBytes] += uint64(len(m)) })
}

// Recv waits for the next message from any rank. If no message is queued, it returns each of these errors once: a
// *PeerError if messages to or from a running rank may be lost, because it did not answer for 30 s, its stream failed,
// or no network reaches it; the error of the fabric if the fabric has failed; a *PeerError for each call of Failed; and
// a *RestartError for each rank that was restarted. It returns the *RestartError before the first message from the
// restarted rank, too. Recv reports lost messages because both ranks could otherwise wait forever: the peer for the
// message, and this rank for the reply.
func (t *Table) Recv(ctx context.Context) (Message, error) { return t.in.take(ctx, 0, true) }

// Failed records that a rank has failed in a job that continues after failures. The next call of Recv that finds no
// message returns a *PeerError about it.
func (t *Table) Failed(rank uint32) { t.in.failed(t.about(rank, ErrFailed)) }

// Acknowledge discards the failures that Failed has recorded and Recv has not returned yet.
func (t *Table) Acknowledge() { t.in.acknowledge() }

// RecvFrom waits for the next message from one rank. If that rank has ended or cannot be reached any more, RecvFrom
// returns a *PeerError after all messages that have arrived from it. Like Recv, it returns a *RestartError once for
// each rank that was restarted.
func (t *Table) RecvFrom(ctx context.Context, rank uint32) (Message, error) {
	if err := t.check(rank, nil); err != nil {
		return Message{}, err
	}
	if !t.isFar(rank) {
		return t.in.take(ctx, rank, false)
	}
	if err := t.Reach(); err != nil {
		return Message{}, t.about(rank, err)
	}
	f := t.remotePeer(rank)
	f.suspicion.begin(time.Since(t.began))
	m, err := t.in.take(ctx, rank, false)
	f.suspicion.end()
	return m, err
}

// Free lets the table reuse the memory of m, the body of a received message. The caller must not use m afterwards.
// Calling Free is optional.
func (t *Table) Free(m []byte) { t.memory.put(m) }

// Warm starts to connect to the given ranks, so that their first messages are faster. It does not wait for the
// connections.
func (t *Table) Warm(ranks ...uint32) error {
	for _, r := range ranks {
		if err := t.check(r, nil); err != nil {
			return err
		}
		switch {
		case r == t.cfg.Rank:
		case t.isNear(r):
			t.localPeer(r).ask(t)
		case t.Tuple().Kind == fabric.NONE:
			t.apart(func() {
				if t.Reach() == nil {
					t.remotePeer(r).warm()
				}
			})
		default:
			t.remotePeer(r).warm()
		}
	}
	return nil
}

// Tally returns the current values of the counters of this rank. They include the counters of its fabric.
func (t *Table) Tally() job.Tally {
	t.fmu.Lock()
	defer t.fmu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stats.Lock()
	defer t.stats.Unlock()
	tally := job.Tally{Sum: t.stats.sums, Latency: t.stats.latency}
	tally.Sum[job.CountRanks] = 1
	tally.Sum[job.CountDatagrams], tally.Sum[job.CountRejects] = t.datagrams, t.rejects
	tally.Sum[job.CountAddressBytes] += t.handshakes
	for _, f := range t.fars {
		tally.Sum[job.CountRetransmits] += f.peer.Counts().Resent
	}
	if f, ok := t.fabric.(fabric.Counter); ok {
		c := f.Counted()
		tally.Sum[job.CountDatagramPairs] += c.DatagramPairs
		tally.Sum[job.CountStreamPairs] += c.StreamPairs
		tally.Sum[job.CountSparePairs] += c.SparePairs
		tally.Sum[job.CountCold] += c.ColdPairs
		tally.Sum[job.CountStrangers] += c.Strangers
		tally.Sum[job.CountPinned] += c.Pinned
		tally.Sum[job.CountOpening] += uint64(c.Opening.Microseconds())
	}
	return tally
}

// Close closes all connections and the fabric. Blocked receives return ErrClosed, and blocked sends ErrClosed or a
// *PeerError. Messages that have not been flushed may be lost. Close returns the errors of closing the fabrics. Later
// calls of Close return nil.
func (t *Table) Close() error {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return nil
	}
	t.closed = true
	nears := slices.Collect(maps.Values(t.nears))
	t.mu.Unlock()
	t.fmu.Lock()
	t.stopped = true
	t.fmu.Unlock()
	t.stop()
	t.in.close(ErrClosed)
	for _, n := range nears {
		n.close()
	}
	for _, f := range t.remotePeers() {
		f.end()
	}
	err := t.way.close(t)
	t.readers.Wait()
	return err
}

// Restarts acknowledges all restarts: Send and Recv do not return errors for them any more. It drops the queued
// messages that these ranks sent before they were restarted.
func (t *Table) Restarts() {
	t.in.mu.Lock()
	defer t.in.mu.Unlock()
	for len(t.in.restarts) > 0 {
		t.in.claim(0)
	}
}
