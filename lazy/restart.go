package lazy

import (
	"slices"

	"ibrun/internal/job"
)

// A failed rank may be restarted, if the job permits restarts. When the stream to a peer has ended, the peer is in
// limbo until the agent has answered what has become of it. Senders wait meanwhile. Then:
//
//	limbo --the peer was restarted--> a new connection for the next message; the program gets one *RestartError
//	limbo --the peer has ended, or still runs--> dead, as without restarts
//
// Messages that were sent before a restart can be received until the restart is reported to the program. Then the rest
// of them is dropped.

// renew records that a rank was restarted with the given epoch, unless a later restart is known. The caller holds
// Table.fmu.
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

// renewed resets the state of a remote peer that was restarted.
func (f *remotePeer) renewed(epoch uint16) {
	t := f.t
	t.renew(f.rank, epoch, false)
	lost := f.limbo || f.dead != nil || len(f.bundle.body) > 0
	f.bundle.drop()
	f.secondary, f.limbo = secondary{}, false // checking is not reset: at most one fresh question is open
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

// restarted records that a peer was restarted, and clears its error. known is set if the program knows about the
// restart already.
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

// claimOf returns the restart of a peer if it has not been reported to the program yet, and marks it as reported.
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

// kill records that a peer can never be reached again. Current and later calls that send to it, or receive from it
// alone, return a *PeerError with the cause why, or with the cause of an earlier call of kill.
func (f *remotePeer) kill(why error) {
	if f.dead == nil {
		f.dead = f.t.about(f.rank, why)
	}
	f.bundle.drop()
	f.fail(f.dead)
}

// fail records a failure. report returns err to the next sender, and the inbox returns it to receivers that wait for
// this peer alone.
func (f *remotePeer) fail(err error) {
	f.failures++
	f.err = err
	f.t.in.lose(f.rank, err)
	f.notify()
}

// report returns the error of a dead peer, or the last failure if it has not been reported yet. The caller holds
// Table.fmu.
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

// lostTo records that messages to a peer were lost because it was restarted. report returns the error to the next
// sender.
func (f *remotePeer) lostTo(epoch uint16) {
	f.failures++
	f.err = f.t.restartError(f.rank, epoch)
}

func (t *Table) restartError(rank uint32, epoch uint16) *RestartError {
	return &RestartError{int(t.layout().Rank(job.Slot(rank))), int(job.StartOf(epoch))}
}

// sinceRestart returns a *RestartError if the rank was restarted after s was opened, and nil otherwise. The restart
// then counts as reported.
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

// doubt puts a peer whose stream has ended in limbo, and asks the agent whether the peer still runs.
func (f *remotePeer) doubt(why error, alarm bool) {
	f.limbo, f.why, f.runs, f.alarm = true, why, 0, alarm
	f.t.ask(waitingRemote{remotePeer: f, fresh: true})
}

// ended handles the failure of a stream on which messages may have been lost. why is its error. If alarm is set, the
// peer still runs.
func (f *remotePeer) ended(why error, alarm bool) {
	if f.t.cfg.Restarts && f.dead == nil {
		f.doubt(why, alarm)
		return
	}
	f.kill(why)
	if alarm {
		f.t.in.alarm(f.dead) // a receiver of any rank may wait for a lost message
	}
}

// conclude handles the agent's answer that a peer in limbo was not restarted. failure is nil if the peer still runs;
// then the peer has closed the stream. The first such answer may be older than the end of the stream, so conclude asks
// once more.
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
