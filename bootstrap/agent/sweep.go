package agent

import (
	"strconv"
	"time"

	"ibrun/bootstrap/core"
	"ibrun/bootstrap/reaper"
	"ibrun/bootstrap/spawn"
	"ibrun/internal/proc"
	"ibrun/internal/safefile"
)

// killWait limits how long the agent waits for processes to die after it has sent them SIGKILL.
const killWait = 2 * time.Second

// sweepJob kills the processes that a lost agent of this node has left. It finds them by their environment, which
// names the job and the node. Processes that a rank forks inherit it.
func (l *loop) sweepJob(e core.SweepJob) {
	mark := proc.Mark{
		Variables: []string{"IBRUN_JOB_ID=" + e.Job, "IBRUN_NODE=" + strconv.FormatUint(uint64(e.Node), 10)},
		Keeper:    reaper.Agent,
	}
	go func() {
		killed, left, err := proc.KillMarked(mark, e.Grace, killWait)
		safefile.SweepNode() // removes the files that the lost agent and its reaper have left
		if err != nil {      // the lost link tells the parent that the result is unknown
			l.LinkLost(core.LinkLost{Link: core.Up, Cause: err.Error()})
			return
		}
		// The group also contains processes whose environment no longer names the job, which KillMarked does not find.
		group := reaper.FindGroup(e.Job, uint32(e.Node))
		killed += len(group.Processes())
		group.Kill()
		if !group.Remove(killWait) {
			left = append(left, group.Processes()...)
		}
		l.JobSwept(core.JobSwept{Killed: uint32(killed), Left: spawn.Unkillable(left)})
	}()
}
