package spawn

import (
	"syscall"
	"time"

	"ibrun/bootstrap/core"
	"ibrun/internal/job"
	"ibrun/internal/proc"
)

// Fence kills the remaining processes of an exited rank that have the rank's mark in their environment, in the process
// group of the rank or outside it. It reports core.RankFenced when all are dead, or after the time most.
func (s *Set) Fence(slot job.Slot, most time.Duration) {
	mark := s.mark("IBRUN_RANK=" + num(s.rank(slot).rank))
	go func() {
		_, left, err := proc.KillMarked(mark, 0, most)
		if err != nil {
			s.cfg.Events.Warn("cannot look for what a rank has left: " + err.Error())
		}
		s.cfg.Events.RankFenced(core.RankFenced{Rank: slot, Left: Unkillable(left)})
	}()
}

// mark returns the mark of the processes of the job whose environment also contains the given variables, as
// NAME=VALUE.
func (s *Set) mark(variables ...string) proc.Mark {
	return proc.Mark{Variables: append(variables, "IBRUN_JOB_ID="+s.cfg.Job.ID)}
}

// Unkillable returns the processes in pids that are still alive. The caller must have sent SIGKILL to all of them.
func Unkillable(pids []int) (left []core.Unkillable) {
	for _, pid := range pids {
		if name, state := proc.Look(pid); state != 0 {
			left = append(left, core.Unkillable{PID: pid, Name: name, State: string(state)})
		}
	}
	return left
}

// Restart starts a rank again in a new goroutine, which reports core.Respawned. All earlier processes of the rank must
// have ended. The rank gets the value of start in IBRUN_RESTART. Call Restart from the goroutine that calls the other
// methods.
func (s *Set) Restart(slot job.Slot, start uint8) {
	old := s.rank(slot)
	r := newRank(s.cfg, old.local)
	r.place, r.start = old.place, start
	s.ranks[r.local] = r
	go s.restart(r)
}

// Empty kills all processes of the ranks that have the mark of the node in their environment or are in a process
// group of a rank. It returns the processes that could not be killed in time. It spares the sessions that the agent
// is opening. It also removes the files of MPI libraries, so that ranks can be started again. It does not kill by the
// control group, because Linux 6.18 kills new processes in a group that was killed before.
func (s *Set) Empty(most time.Duration) (left []int) {
	s.again.Lock() // wait for a rank that is being started
	defer s.again.Unlock()
	s.signalGroups(syscall.SIGKILL)
	_, left, err := proc.KillMarked(s.mark("IBRUN_NODE="+num(s.cfg.NodeIndex)), 0, most)
	if err != nil {
		s.cfg.Events.Warn("cannot look for what ranks have left: " + err.Error())
	}
	s.tidyRanks()
	s.PMIx.emptyFolders(s.ranks)
	return left
}

func (s *Set) restart(r *rank) {
	s.again.Lock() // what starts have in common belongs to one of them
	one := []*rank{r}
	failed := s.startInTime(one, func() []core.ForkFailure { return s.startRanks(one, nil) })
	s.again.Unlock()
	if len(failed) > 0 {
		s.cfg.Events.Respawned(core.Respawned(failed[0]))
		return
	}
	s.cfg.Events.Respawned(core.Respawned{Rank: r.slot})
	s.watch(r, r.running())
}
