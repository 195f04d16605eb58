package lazy

import (
	"slices"

	"ibrun/internal/job"
)

// A rank that has failed may start again, in a job that is started so. Until the agent says what
// became of it, the connection to it is in limbo: those who send wait. Then
//
//	limbo --Restarted--> a new connection, at the next message; the program hears *RestartError once
//	limbo --it has ended, or runs--> dead, as in any other job
//
// What the old start has sent can be received until the program has heard of the restart, and
// nothing of it afterwards.

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
