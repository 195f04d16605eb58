package sim

import (
	"fmt"
	"time"

	"ibrun/bootstrap/core"
	"ibrun/bootstrap/frame"
	"ibrun/bootstrap/pmiserver"
	"ibrun/bootstrap/wire"
	"ibrun/job"
)

func (w *World) perform(a *agent, eff core.Effect) {
	switch e := eff.(type) {
	case core.Send:
		w.send(a, e)
	case core.StartChild:
		w.startChild(a, e)
	case core.CloseLink:
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
		w.RankBytes += uint64(len(frame.Append(nil, e.Msg)))
		if w.cfg.ToRank != nil {
			w.cfg.ToRank(a.node, uint32(e.Rank), e.Msg)
		}
	case core.ReadBulk:
		w.post(0, a, core.BulkRead{Fence: e.Fence, Value: w.cfg.Give(a.node, e.Fence)})
	case core.BulkFetched:
		w.cfg.BulkFetched(a.node, e.Fence, e.Values)
	case core.Connect:
	case core.SignalRanks:
		if e.Number == 15 || e.Number == 2 {
			w.end(a, job.Status{Kind: job.Signaled, Code: e.Number})
		}
	case core.KillRanks:
		w.end(a, job.Status{Kind: job.Signaled, Code: 9})
		w.post(0, a, core.Killed{})
	case core.Sweep:
		w.post(0, a, core.Swept{})
	case core.Probe:
		w.post(w.cfg.Hop, a, core.Probed{Link: e.Link, Known: true})
	case core.Write:
		w.post(0, a, core.Wrote{N: len(e.Data)})
	case core.ReadStdin:
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
	counts := w.PerEdge[edge]
	switch e.Msg.Kind() {
	case wire.KindLaunch:
		counts[0]++
	case wire.KindReady:
		counts[1]++
	case wire.KindExit:
		counts[2]++
	}
	w.PerEdge[edge] = counts
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
	if to != nil {
		w.post(w.cfg.Hop, to, core.Frame{From: from, Msg: m})
	}
}

func (w *World) startChild(a *agent, e core.StartChild) {
	head := uint32(w.cfg.Nodes.NodeOf(e.Node.First))
	if a.index == nil {
		a.children, a.index = map[core.Link]*agent{}, map[core.Link]uint32{}
	}
	a.index[e.Child] = head
	takes, comes := w.session(a.host, e, head)
	takes += max(a.turn-w.now, 0)
	a.turn = max(a.turn, w.now) + w.cfg.Turn
	if !comes {
		w.post(takes, a, core.ChildFailed{Child: e.Child, Phase: "connect", Cause: "connection refused"})
		return
	}
	k := &agent{host: e.Node.Host, node: head, parent: a, slot: e.Child,
		core: core.New(core.Config{Here: -1, Join: pmiserver.Join}), alive: map[uint32]bool{}, depth: a.depth + 1}
	w.Depth = max(w.Depth, k.depth)
	a.children[e.Child] = k
	w.agents[head] = k
	w.At(w.now+takes, func() {
		w.Up[k.host] = w.now
		w.deliver(event{to: k, ev: core.Opened{}})
		w.deliver(event{to: a, ev: core.ChildUp{Child: e.Child}})
	})
}

// session is how long a session takes, and whether it comes up then.
func (w *World) session(parent string, e core.StartChild, head uint32) (takes time.Duration, comes bool) {
	takes, comes = w.cfg.Session, w.cfg.Deaf == nil || !w.cfg.Deaf(head)
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
	starts := time.Duration(e.Node.Ranks) * w.cfg.Start
	w.post(starts, a, core.ForkDone{})
	a.rank = e.Node
	if w.cfg.Began != nil {
		w.At(w.now, func() { w.cfg.Began(a.node) })
	}
	for i := range e.Node.Ranks {
		r := uint32(e.Node.First) + i
		a.alive[r] = true
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
