package agent

import (
	"ibrun/bootstrap/core"
	"ibrun/bootstrap/core/flow"
	"ibrun/bootstrap/spawn"
)

// daemonSet holds the daemons that one order has started on this node.
type daemonSet struct {
	*spawn.Daemons
	left int // number of daemons that have not ended
}

// performDaemons performs the effects that concern the daemons of this node.
func (l *loop) performDaemons(e core.Effect) {
	switch e := e.(type) {
	case flow.StartDaemons:
		daemons, n := l.ranks.StartDaemons(e)
		l.daemons[e.ID] = &daemonSet{daemons, n}
	case flow.KillDaemons:
		if set := l.daemons[e.ID]; set != nil {
			set.Kill()
		}
	case flow.TellMember:
		if set := l.daemons[e.ID]; set != nil {
			set.Tell(uint32(e.Member), e.Msg)
		}
	case flow.FeedDaemon:
		if set := l.daemons[e.ID]; set != nil {
			set.Feed(e.Stdin)
		}
	case flow.ResumeDaemon:
		if set := l.daemons[e.ID]; set != nil {
			set.Resume(e.Number, e.Stream)
		}
	}
}

// daemonExited reports the end of a daemon. When the last daemon of an order has ended, the loop deletes the order from
// l.daemons.
type daemonExited flow.DaemonExited

func (l *loop) DaemonExited(ev flow.DaemonExited) { l.post(daemonExited(ev)) }

func (e daemonExited) handle(l *loop) {
	if set := l.daemons[e.ID]; set != nil {
		if set.left--; set.left == 0 {
			delete(l.daemons, e.ID)
		}
	}
	l.hear(flow.DaemonExited(e))
}
