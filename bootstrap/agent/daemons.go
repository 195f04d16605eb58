package agent

import (
	"ibrun/bootstrap/core"
	"ibrun/bootstrap/spawn"
	"ibrun/internal/job"
)

// daemonSet are the daemons of an order on this node.
type daemonSet struct {
	*spawn.Daemons
	left int // that have not ended
}

// performDaemons does the effects that concern this node's daemons.
func (l *loop) performDaemons(e core.Effect) {
	switch e := e.(type) {
	case core.StartDaemons:
		if l.daemons == nil {
			l.daemons = map[uint32]*daemonSet{}
		}
		set := &daemonSet{left: 1}
		if e.Count > 0 {
			set.left = int(e.Count)
		} else if e.PerRank {
			set.left = len(e.Ranks)
		}
		set.Daemons = l.ranks.StartDaemons(spawn.Order{ID: e.ID, PerRank: e.PerRank, Argv: e.Argv, Number: e.Number,
			Place: e.Place, Ranks: e.Ranks, Input: e.Input, Window: e.Window, Attach: l.attached(e.Ranks[0]),
			First: uint32(e.First), Count: e.Count, Size: e.Size, Env: e.Env})
		l.daemons[e.ID] = set
	case core.KillDaemons:
		if set := l.daemons[e.ID]; set != nil {
			set.Kill()
		}
	case core.TellMember:
		if set := l.daemons[e.ID]; set != nil {
			set.Tell(uint32(e.Member), e.Msg)
		}
	case core.FeedDaemon:
		if set := l.daemons[e.ID]; set != nil {
			set.Feed(e.Stdin)
		}
	case core.ResumeDaemon:
		if set := l.daemons[e.ID]; set != nil {
			set.Resume(e.Number, e.Stream)
		}
	}
}

// attached finds the process of a rank that a debugger wants: what a shell waits for, and not the
// shell.
func (l *loop) attached(rank job.Slot) func() int {
	ranks := l.ranks
	return func() int {
		pid := ranks.Process(rank).PID
		if look, lives := (&spawn.Looks{}).At(pid); lives {
			pid = look.Worker()
		}
		return pid
	}
}

func (l *loop) daemonExited(ev spawn.DaemonExited) core.Event {
	if set := l.daemons[ev.ID]; set != nil {
		if set.left--; set.left == 0 {
			delete(l.daemons, ev.ID)
		}
	}
	return core.DaemonExited{ID: ev.ID, Number: ev.Number, Status: ev.Status, Cause: ev.Cause}
}
