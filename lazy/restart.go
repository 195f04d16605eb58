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

// kill says that a peer can never be reached again, to whoever waits and to whoever comes.
func (f *remotePeer) kill(why error) {
	if f.dead == nil {
		f.dead = f.t.about(f.rank, why)
	}
	f.bundle.drop()
	f.fail(f.dead)
}

// fail records a failure for whoever looks next.
func (f *remotePeer) fail(err error) {
	f.failures++
	f.err = err
	f.t.in.lose(f.rank, err)
	f.notify()
}

// report returns a failure that nobody has been told of; the caller holds the lock.
func (f *remotePeer) report() error {
	if f.dead != nil {
		return f.dead
	}
	if f.reported < f.failures {
		f.reported = f.failures
		if _, restarted := f.err.(*RestartError); !restarted || f.t.in.claimOf(f.rank) != nil {
			return f.err
		}
	}
	return nil
}

// lostTo records that messages to an old start are lost, for whoever sends next.
func (f *remotePeer) lostTo(epoch uint16) {
	f.failures++
	f.err = f.t.restartError(f.rank, epoch)
}

func (t *Table) restartError(rank uint32, epoch uint16) *RestartError {
	return &RestartError{int(t.layout().Rank(job.Slot(rank))), int(job.StartOf(epoch))}
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

// doubt asks the agent what has become of a peer whose stream has ended.
func (f *remotePeer) doubt(why error, alarm bool) {
	f.limbo, f.why, f.runs, f.alarm = true, why, 0, alarm
	f.t.ask(waitingRemote{remotePeer: f, fresh: true})
}

// ended handles the end of a pair for good, whose stream was lost. If alarm is set, the peer runs.
func (f *remotePeer) ended(why error, alarm bool) {
	if f.t.cfg.Restarts && f.dead == nil {
		f.doubt(why, alarm)
		return
	}
	f.kill(why)
	if alarm {
		f.t.in.alarm(f.dead) // the peer runs, and a receiver of any rank may wait for what was lost
	}
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
