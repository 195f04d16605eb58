package lazy

import (
	"ibrun/internal/job"
)

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
