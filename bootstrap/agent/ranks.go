package agent

import (
	"syscall"
	"time"

	"ibrun/bootstrap/clients/charm"
	"ibrun/bootstrap/clients/pmi"
	"ibrun/bootstrap/clients/pmixserver"
	"ibrun/bootstrap/core"
	"ibrun/bootstrap/core/flow"
	"ibrun/bootstrap/spawn"
	"ibrun/bootstrap/wire"
	"ibrun/internal/proc"
)

// stopPatience limits the time in which the agent stops or continues all processes of the ranks. A pass over a few
// thousand processes takes about 10 ms. Each pass after the first one finds only the processes that were forked during
// the previous pass.
const stopPatience = time.Second

// performRanks performs the effects that concern the ranks of this node. It reports whether e was one of them.
func (l *loop) performRanks(e core.Effect) bool {
	switch e := e.(type) {
	case core.Fork:
		l.server, l.pmix = pmi.NewServer(e.Job, e.Op), pmixserver.New(e.Job, e.Node, e.Index)
		l.charm, l.charmJob = charm.NewServer(e.Job, e.Node, e.Op), e.Job
		l.ranks = spawn.New(spawn.Config{
			Job: e.Job, Node: e.Node, NodeIndex: e.Index, Start: e.Start, Interfaces: interfaces(e.Job, l.path),
			Namespace: pmixserver.Namespace(e.Job), Events: l,
		})
		go l.ranks.Start()
	case core.Resume:
		if l.charm.Prints(e.Rank) {
			l.obeyCharm(l.charm.Resumed(e.Rank, e.Stream))
		} else {
			l.ranks.Resume(e.Rank, e.Stream)
		}
	case core.Feed:
		if l.charm.Expects(e.Rank) {
			l.obeyCharm(l.charm.Input(e.Rank, e.Data, e.EOF))
		} else {
			l.ranks.Feed(e.Rank, wire.Stdin{Data: e.Data, EOF: e.EOF, Window: e.Window})
		}
	case core.SendRank:
		switch {
		case l.server.IsClient(e.Rank):
			l.obeyPMI(l.server.Deliver(e.Rank, e.Msg))
		case l.pmix.IsClient(e.Rank):
			l.obeyPMIx(l.pmix.Deliver(e.Rank, e.Msg))
		case l.charm.IsClient(e.Rank):
			l.obeyCharm(l.charm.Deliver(e.Rank, e.Msg))
		default:
			l.ranks.Tell(e.Rank, e.Msg)
		}
	case core.ReadBulk:
		l.hear(core.BulkRead{Fence: e.Fence, Value: l.server.Give(e.Fence)})
	case core.BulkFetched:
		l.obeyPMI(l.server.BulkFetched(e.Fence, e.Values))
	case core.Connect:
		l.ranks.Connect(e.A, e.B)
	case core.Fence:
		l.ranks.Fence(e.Rank, e.Most)
	case core.Refork:
		l.ranks.Restart(e.Rank, e.Start)
	case core.Renew:
		removeShared(l.server.Shared())
		l.server, l.pmix = pmi.NewServer(e.Job, e.Op), pmixserver.New(e.Job, e.Node, e.Index)
		l.charm = charm.NewServer(e.Job, e.Node, e.Op)
		if l.placed != nil {
			l.pmix.Placed(*l.placed)
		}
	case core.EmptyNode:
		go func() { l.NodeEmptied(core.NodeEmptied{Left: spawn.Unkillable(l.ranks.Empty(e.Most))}) }()
	case core.SignalRanks:
		l.ranks.Signal(syscall.Signal(e.Number))
	case core.StopRanks:
		proc.StopDescendants(stopPatience, l.keep()...)
	case core.ContinueRanks:
		proc.ContinueDescendants(stopPatience, l.keep()...)
	case core.KillRanks:
		keep := l.keep()
		go func() { l.Killed(core.Killed{Left: spawn.Unkillable(l.ranks.KillAll(e.Most, keep))}) }()
	case core.Sweep:
		keep := l.keep()
		go func() { l.Swept(core.Swept{Left: spawn.Unkillable(l.ranks.Sweep(e.Most, keep))}) }()
	case core.Inspect:
		l.inspect(e)
	case flow.StartDaemons, flow.KillDaemons, flow.ResumeDaemon, flow.FeedDaemon, flow.TellMember:
		l.performDaemons(e)
	case core.CCSOrdered:
		l.obeyCharm(l.charm.Request(e.ID, e.Rank, e.Request))
	case core.SweepJob:
		l.sweepJob(e)
	default:
		return false
	}
	return true
}
