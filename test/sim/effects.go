package sim

import (
	"fmt"
	"time"

	"ibrun/bootstrap/clients/pmi"
	"ibrun/bootstrap/clients/pmixserver"
	"ibrun/bootstrap/core"
	"ibrun/bootstrap/core/flow"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

func (w *World) perform(a *agent, eff core.Effect) {
	switch e := eff.(type) {
	case core.Send:
		w.send(a, e)
	case core.StartChild:
		w.startChild(a, e)
	case core.ObserveSessions:
		ran := max(min(a.turn, w.now)-a.observed, 0)
		a.observed = w.now
		w.post(0, a, core.SessionsObserved{Ran: ran})
	case core.JoinChild:
		w.joinChild(a, e)
	case core.CloseLink:
		delete(a.joining, e.Link)
		if k := a.children[e.Link]; k != nil {
			w.orphan(k)
		}
		delete(a.children, e.Link)
	case core.SetTimer:
		a.timer++
		w.push(event{at: e.At, to: a, ev: core.Tick{}, tick: a.timer})
	case core.Fork:
		w.spawn(a, e)
	case core.SendRank:
		if w.cfg.ToRank != nil {
			w.cfg.ToRank(a.node, uint32(e.Rank), e.Msg)
		}
	case core.ReadBulk:
		w.post(0, a, core.BulkRead{Fence: e.Fence, Value: w.cfg.Give(a.node, e.Fence)})
	case core.BulkFetched:
		w.cfg.BulkFetched(a.node, e.Fence, e.Values)
	case core.Connect, core.ReadStdin, flow.ResumeDaemon:
	case core.SignalRanks:
		if !w.cfg.Stubborn && (e.Number == 15 || e.Number == 2) {
			w.end(a, job.Status{Kind: job.Signaled, Code: e.Number})
		}
	case core.KillRanks:
		w.end(a, job.Status{Kind: job.Signaled, Code: 9})
		w.post(0, a, core.Killed{})
	case core.Sweep:
		w.post(0, a, core.Swept{})
	case core.Fence:
		w.post(w.cfg.Hop, a, core.RankFenced{Rank: e.Rank})
	case core.Renew:
		if len(a.alive) > 0 {
			panic(fmt.Sprintf("sim: the servers of node %d are made new while ranks run: %v", a.node, a.alive))
		}
	case core.EmptyNode:
		w.end(a, job.Status{Kind: job.Signaled, Code: 9})
		w.killDaemons(a, func(uint32) bool { return true })
		w.post(w.cfg.Hop, a, core.NodeEmptied{})
	case core.Refork:
		w.respawn(a, e)
	case core.SweepNode:
		w.sweep(a, e)
	case core.Inspect:
		w.inspect(a, e)
	case flow.StartDaemons:
		w.daemons(a, e)
	case flow.KillDaemons:
		w.killDaemons(a, func(id uint32) bool { return id == e.ID })
	case flow.DaemonsPrinted:
		w.printed(e)
	case core.ResizeTold:
		w.Resizes = append(w.Resizes, e)
	case flow.SessionOpened:
		w.Sessions = append(w.Sessions, e)
	case flow.TellMember:
		w.cfg.ToMember(a.node, e)
	case flow.DaemonsOver:
		w.Ends = append(w.Ends, e)
	case core.Answered:
		w.Answers = append(w.Answers, e.Reply)
	case core.Probe:
		below := a
		if e.Link != core.Up {
			below = a.children[e.Link]
		}
		if below == nil { // the session has ended meanwhile
			w.post(w.cfg.Hop, a, core.Probed{Link: e.Link})
			return
		}
		w.post(w.cfg.Hop, a, w.probed(below, e.Link))
	case core.Resume:
		if w.cfg.Resumed != nil {
			w.cfg.Resumed(a.node, e)
		}
	case core.Write:
		w.post(0, a, core.Wrote{N: len(e.Data)})
	case core.Report:
		if _, ready := e.What.(core.LaunchDone); ready {
			w.Ready = w.now
		}
		w.Reports = append(w.Reports, e.What)
	case core.Suspend:
		w.suspend()
	case core.StopRanks:
		w.Stopped[a.node] = true
	case core.ContinueRanks:
		delete(w.Stopped, a.node)
	case core.Leave:
		w.kill(a)
	case core.Finish:
		a.done = true
		w.part(a)
	case core.Done:
		a.done = true
		w.Outcome = &e.Outcome
		w.part(a)
	}
}

// send passes a message through the codec, as a real link does.
func (w *World) send(a *agent, e core.Send) {
	w.Sent[e.Msg.Kind()]++
	to, from, edge := a.parent, a.slot, a.node
	if e.To != core.Up {
		to, from, edge = a.children[e.To], core.Up, a.index[e.To]
	}
	bytes := frame.Append(nil, e.Msg)
	w.Bytes[e.Msg.Kind()] += uint64(len(bytes))
	if a == w.root || to == w.root {
		w.RootBytes[e.Msg.Kind()] += uint64(len(bytes))
	}
	if w.cfg.Sent != nil {
		w.cfg.Sent(edge, e.To == core.Up, e.Msg)
	}
	m, err := wire.Vocabulary.Parse(bytes[4:])
	if err != nil {
		panic(fmt.Sprintf("sim: own frame does not parse: %v: %v", e.Msg, err))
	}
	if to == nil {
		return
	}
	below, link := a, uint64(0)
	if e.To != core.Up {
		below, link = to, to.links+1
	}
	if m, ok := m.(wire.Launch); ok {
		startLevel(below, m)
	}
	if at, comes := w.arrival(below, e.To == core.Up); comes {
		w.push(event{at: at, to: to, ev: core.Frame{From: from, Msg: m}, link: link})
	}
}

func (w *World) startChild(a *agent, e core.StartChild) {
	head := w.nodeOf(e.Node)
	if a.index == nil {
		a.children, a.index = map[core.Link]*agent{}, map[core.Link]uint32{}
	}
	a.index[e.Child] = head
	takes, comes := w.session(a.host, e)
	takes += max(a.turn-w.now, 0)
	a.turn = max(a.turn, w.now) + w.cfg.Turn
	if !comes {
		w.post(takes, a, core.ChildFailed{Child: e.Child, Phase: "connect", Cause: "connection refused"})
		return
	}
	k := &agent{host: e.Node.Host, node: head, parent: a, slot: e.Child,
		core:  core.New(core.Config{Here: -1, Join: join, Cores: w.cfg.Cores, Check: w.checks()}),
		alive: map[uint32]bool{}, depth: a.depth + 1}
	w.Depth = max(w.Depth, k.depth)
	a.children[e.Child] = k
	if old := w.agents[head]; old != nil {
		w.before[head] = append(w.before[head], old)
	}
	w.agents[head] = k
	w.At(w.now+takes, func() {
		w.Up[k.host] = w.now
		w.deliver(event{to: k, ev: core.Opened{}})
		w.deliver(event{to: a, ev: core.ChildUp{Child: e.Child, Spent: w.cfg.Turn}})
	})
}

// sweep lets a session of its own come to a node, and kill what was left there. An agent that
// lives has the grace to end its ranks.
func (w *World) sweep(a *agent, e core.SweepNode) {
	node := uint32(e.Index)
	if at := w.cfg.Nodes.Index(e.Node.Host); at >= 0 {
		node = uint32(at) // as it was numbered before nodes were dropped
	}
	takes, comes := w.session(a.host, core.StartChild{Node: e.Node, Local: e.Local, Most: e.Most})
	k := w.agents[node]
	if k != nil && w.isCut(k) {
		takes, comes = e.Most, false
	}
	w.At(w.now+takes, func() {
		if !comes {
			w.deliver(event{to: a, ev: core.NodeSwept{Index: e.Index, Cause: "connect: no answer"}})
			return
		}
		answer := func() {
			killed := w.Strays[node]
			delete(w.Strays, node)
			w.deliver(event{to: a, ev: core.NodeSwept{Index: e.Index, Killed: killed}})
		}
		if k == nil || len(k.alive) == 0 {
			answer()
			return
		}
		w.At(w.now+e.Grace, func() {
			w.end(k, job.Status{Kind: job.Signaled, Code: 9})
			answer()
		})
	})
}

// session is how long a session takes, and whether it comes up then.
func (w *World) session(parent string, e core.StartChild) (takes time.Duration, comes bool) {
	takes, comes = w.cfg.Session, true
	if w.cfg.Takes != nil {
		takes, comes = w.cfg.Takes(parent, e.Node.Host)
	}
	most := w.cfg.Job.Launch.Timeout
	if e.Most > 0 {
		most = e.Most
	}
	return min(takes, most), comes && takes <= most
}

func (w *World) spawn(a *agent, e core.Fork) {
	w.Spawned[a.node]++
	for _, other := range w.before[a.node] {
		if len(other.alive) > 0 {
			panic(fmt.Sprintf("sim: ranks of node %d start on %s, and run on %s: %v", a.node, a.host, other.host,
				other.alive))
		}
	}
	starts := time.Duration(e.Node.Ranks) * w.cfg.Start
	w.post(starts, a, core.ForkDone{})
	a.rank = e.Node
	if w.cfg.Began != nil {
		w.At(w.now, func() { w.cfg.Began(a.node) })
	}
	for i := range e.Node.Ranks {
		r := uint32(e.Node.First) + i
		a.alive[r] = true
		w.Starts[r] = e.Start
		if w.cfg.Silent != nil && w.cfg.Silent(r) {
			continue
		}
		s := job.Status{}
		if w.cfg.Status != nil {
			s = w.cfg.Status(r)
		}
		w.At(w.now+starts+w.cfg.Run, func() { w.exit(a, r, s) })
	}
}

// respawn starts a rank again, of which nothing may be left.
func (w *World) respawn(a *agent, e core.Refork) {
	r := uint32(e.Rank)
	if a.alive[r] || e.Start <= w.Starts[r] {
		panic(fmt.Sprintf("sim: start %d of rank %d, whose start %d runs: %v", e.Start, r, w.Starts[r], a.alive[r]))
	}
	a.alive[r], w.Starts[r] = true, e.Start
	w.post(w.cfg.Start, a, core.Respawned{Rank: e.Rank})
	if w.cfg.Silent == nil || !w.cfg.Silent(r) {
		w.At(w.now+w.cfg.Start+w.cfg.Run, func() { w.exit(a, r, job.Status{}) })
	}
}

func (w *World) exit(a *agent, r uint32, s job.Status) {
	w.exited(a, core.RankExited{Rank: job.Slot(r), Status: s})
}

func (w *World) exited(a *agent, ev core.RankExited) {
	if a.dead || !a.alive[uint32(ev.Rank)] {
		return
	}
	delete(a.alive, uint32(ev.Rank))
	w.post(0, a, ev)
	w.post(0, a, core.RankDrained{Rank: ev.Rank})
}

// end ends all ranks of a node, as its agent has told them to.
func (w *World) end(a *agent, s job.Status) {
	for i := range a.rank.Ranks {
		w.exited(a, core.RankExited{Rank: a.rank.First + job.Slot(i), Status: s, Signaled: true})
	}
}

// join makes few parcels of those of a barrier, as agents do.
func join(p rankwire.Parcels) rankwire.Parcels { return pmixserver.Join(pmi.Join(p)) }
