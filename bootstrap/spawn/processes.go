package spawn

import (
	"syscall"

	"ibrun/internal/job"
)

// Process is a rank of this node as it was started.
type Process struct {
	PID int    // 0: it does not run
	HCA string // its HCA and port, or empty
}

// Process is that of a rank, when ForkDone was posted.
func (s *Set) Process(slot job.Slot) (p Process) {
	r := s.rank(slot)
	p.HCA = r.place.port
	if run := r.running(); run != nil && !run.Ended() {
		p.PID = run.Pid()
	}
	return p
}

// SignalRank sends a signal to the process group of one rank, as kill(1) does: if the rank dies of
// it, that is no end that the job has ordered. False: the rank does not run.
func (s *Set) SignalRank(slot job.Slot, number syscall.Signal) bool {
	run := s.rank(slot).running()
	if run == nil || run.Ended() {
		return false
	}
	run.SignalGroup(number)
	return true
}
