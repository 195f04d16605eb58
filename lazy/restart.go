package lazy

import (
	"context"
	"fmt"
	"slices"

	"ibrun/internal/job"
	"ibrun/lazy/peer"
)

// A rank that has failed may start again, in a job that is started so. Until the agent says what
// became of it, the connection to it is in limbo: those who send wait. Then
//
//	limbo --Restarted--> a new connection, at the next message; the program hears *RestartError once
//	limbo --it has ended, or runs--> dead, as in any other job
//
// What the old start has sent can be received until the program has heard of the restart, and
// nothing of it afterwards.

// RestartError says that a rank was restarted. What was sent to its old start and was not
// acknowledged is lost.
type RestartError struct {
	Rank     int // as the user counts
	Restarts int // of that rank, so far
}

func (e *RestartError) Error() string {
	return fmt.Sprintf("rank %d was restarted (its restarts so far: %d)", e.Rank, e.Restarts)
}

// Restarted says that a rank counts from an epoch on. Known: the program knows of it, since it has
// joined the job afterwards.
func (t *Table) Restarted(rank uint32, epoch uint16, known bool) {
	t.fmu.Lock()
	defer t.fmu.Unlock()
	if t.stopped || rank >= t.layout().Ranks() || rank == t.cfg.Rank {
		return
	}
	t.renew(rank, epoch, known)
	t.mu.Lock()
	f := t.fars[rank]
	t.mu.Unlock()
	if f != nil {
		t.step(f, peer.Event{Kind: peer.Floor, Epoch: epoch})
	}
}

// renew notes the newest start of a rank, once; the caller holds the lock of remote peers.
func (t *Table) renew(rank uint32, epoch uint16, known bool) {
	t.mu.Lock()
	if job.StartOf(epoch) <= job.StartOf(t.floor(rank)) {
		t.mu.Unlock()
		return
	}
	t.floors[rank] = epoch
	near := t.nears[rank]
	delete(t.nears, rank)
	t.mu.Unlock()
	err := t.restartError(rank, epoch)
	t.in.restarted(rank, err, known)
	if near != nil {
		near.drop(err)
	}
}

func (t *Table) restartError(rank uint32, epoch uint16) *RestartError {
	return &RestartError{int(t.layout().Rank(job.Slot(rank))), int(job.StartOf(epoch))}
}

// floor is the least epoch of a rank that counts; the caller holds the lock of the maps.
func (t *Table) floor(rank uint32) uint16 { return max(t.floors[rank], t.cfg.Floor) }

// start is the start of a rank that counts.
func (t *Table) start(rank uint32) uint8 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return job.StartOf(t.floor(rank))
}

// sinceRestart is the error for a message to a start of a peer that does not count any more, or
// nil.
func (t *Table) sinceRestart(rank uint32, s *stream) error {
	t.mu.Lock()
	epoch := t.floor(rank)
	t.mu.Unlock()
	if s.start == job.StartOf(epoch) {
		return nil
	}
	t.in.claimOf(rank)
	return t.restartError(rank, epoch)
}

// Restarts acknowledges all restarts: Recv does not fail for them any more.
func (t *Table) Restarts() {
	t.in.mu.Lock()
	defer t.in.mu.Unlock()
	for len(t.in.restarts) > 0 {
		t.in.claim(0)
	}
}

// renewed makes the way to a remote peer anew: a newer start of it counts.
func (f *remotePeer) renewed(epoch uint16) {
	t := f.t
	t.renew(f.rank, epoch, false)
	lost := f.limbo || f.dead != nil || len(f.bundle.body) > 0
	f.bundle.drop()
	f.secondary, f.limbo = secondary{}, false // a question whether it runs stays the only one in flight
	t.mu.Lock()
	broken := t.broken
	t.mu.Unlock()
	if broken == nil {
		f.dead = nil
	}
	if lost {
		f.lostTo(epoch)
	}
	f.notify()
}

// lostTo records that messages to an old start are lost, for whoever sends next.
func (f *remotePeer) lostTo(epoch uint16) {
	f.failures++
	f.err = f.t.restartError(f.rank, epoch)
}

// doubt asks the agent what has become of a peer whose stream has ended.
func (f *remotePeer) doubt(why error, alarm bool) {
	f.limbo, f.why, f.runs, f.alarm = true, why, 0, alarm
	f.t.ask(waitingRemote{remotePeer: f, fresh: true})
}

// conclude ends the limbo: the peer has ended, or it runs and has closed the stream. The first
// answer that it runs may be older than the end of the stream.
func (f *remotePeer) conclude(failure error) {
	if failure == nil {
		if f.runs++; f.runs < 2 {
			f.t.ask(waitingRemote{remotePeer: f, fresh: true})
			return
		}
	} else {
		f.why, f.alarm = failure, false
	}
	f.limbo = false
	f.kill(f.why)
	if f.alarm {
		f.t.in.alarm(f.dead)
	}
}

// drop ends a local connection: a newer start of the peer counts.
func (n *localPeer) drop(err error) {
	if !n.decide(nil, err) && n.s != nil {
		n.s.fail(err)
	}
}

// failure is why there is no socket to a local peer.
func (n *localPeer) failure(t *Table) error {
	if _, restarted := n.err.(*RestartError); restarted {
		t.in.claimOf(n.rank)
	}
	return n.err
}

// verdict waits until it is known what became of a local peer whose socket has failed, and says it.
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

// doubt asks the agent what has become of a local peer whose socket has ended.
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

// restarted makes a newer start of a peer the one that counts. Known: the program knows of it.
func (b *inbox) restarted(from uint32, err *RestartError, known bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.source(from)
	s.start, s.err = uint8(err.Restarts), nil
	b.restarts = slices.DeleteFunc(b.restarts, func(o *RestartError) bool { return o.Rank == err.Rank })
	if known {
		return
	}
	b.restarts = append(b.restarts, err)
	b.unheard.Store(int32(len(b.restarts)))
	s.news = err
	b.wakeFirst(false)
}

// news is where among the restarts that of a peer is, of which the program has not heard; -1:
// nowhere.
func (b *inbox) news(from uint32) int {
	s := b.from[from]
	if s == nil || s.news == nil {
		return -1
	}
	return slices.Index(b.restarts, s.news)
}

// claim takes a restart from the list, and drops what is left of the old start. The caller holds
// the lock.
func (b *inbox) claim(i int) *RestartError {
	err := b.restarts[i]
	b.restarts = slices.Delete(b.restarts, i, i+1)
	b.unheard.Store(int32(len(b.restarts)))
	for _, s := range b.from {
		if s.news != err {
			continue
		}
		s.news = nil
		for _, e := range slices.Clone(s.queue) {
			if e.start != s.start {
				b.remove(e, s)
			}
		}
	}
	return err
}

// claimOf takes the restart of a peer from the list, if it is there.
func (b *inbox) claimOf(from uint32) error {
	if b.unheard.Load() == 0 {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := b.news(from); i >= 0 {
		return b.claim(i)
	}
	return nil
}
