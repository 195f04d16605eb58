package recovery

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"ibrun/bootstrap/wire"
	"ibrun/internal/job"
)

// Causes of losses that nothing of the lost host has reported.
const (
	HostSilent = "its host has not answered for 10 s"
	HostLost   = "its host has not answered for 7 s" // in a job that restarts ranks
)

// The times of the failure detector and of agents that it has given up.
const (
	Heartbeat     = 2 * time.Second          // an idle link carries a heartbeat after this time
	AgentTimeout  = 60 * time.Second         // an agent that is silent for this time is lost though its host answers
	OrphanTimeout = 11500 * time.Millisecond // in a repaired tree, an agent waits this long for another parent

	// ranksEnded is the time from the last frame of an agent's parent until the agent has killed its ranks. The agent
	// looks each second from 10 s on. The last frames that the two have from each other differ by a heartbeat, and
	// their clocks by at most a second.
	ranksEnded = 11*time.Second + Heartbeat + time.Second
	// orphanEnded is the same in a repaired tree.
	orphanEnded = OrphanTimeout + Heartbeat + time.Second
	// stoppedEnded is the time from the loss of an agent whose host answers until its reaper has ended it.
	stoppedEnded = 15 * time.Second

	// soon is the maximum time between two losses of a node after which a spare replaces the node.
	soon = time.Minute
)

// MaxReplaced is the maximum number of times that nodes are replaced. The numbers of reports and the positions in
// output streams allow no more.
const MaxReplaced = 1<<16 - 1

// UsesPMI is the reason why ranks that use PMI are not restarted alone.
const UsesPMI = "it uses PMI, so it cannot be restarted alone; hint: --on-failure end, and start the job again"

func isSilent(f wire.Fault) bool { return f.Cause == HostSilent || f.Cause == HostLost }

// missing is a set of conditions for the restart of a lost node's ranks.
type missing uint8

const (
	unfencedNode missing = 1 << iota // old processes of the ranks may run
	unreadyAgent                     // no new agent is ready
	blindSweep                       // processes may run on a former host, of which a sweep does not tell
)

// place is a node whose agent is lost and whose ranks are to be restarted. It ends when nothing is missing.
//
//	lost --own host or spare: Replace--> ordered --Replaced--> ready ---+--> the Director restarts the ranks
//	lost --a sweep has found nothing, or the time is over--> fenced ----+
//	ordered --Replaced with a cause--> the next spare --none--> the ranks are lost, or the job ends
type place struct {
	fault   wire.Fault
	span    Span
	lacks   missing
	fenceAt time.Duration // time at which no old process can run any more, whatever a sweep says
	number  uint32        // number of the newest Replace; 0 means none
}

// nodeResponse says what the root does about the loss of a node.
type nodeResponse uint8

const (
	endsJob nodeResponse = iota
	losesRanks
	replacesNode
	ignored
)

// respond decides about the loss of a node with the ranks of span. repaired says that the parent of the lost agent has
// adopted the agents below it. If the job ends, why is a reason in addition to the cause of the loss, or "".
func (m *Machine) respond(f wire.Fault, span Span, repaired bool) (r nodeResponse, why string) {
	root, spares := &m.root, m.root.members.Spares.Len() > 0
	adopts := m.policy.Agent == Continue
	if repaired {
		r = losesRanks
	}
	switch {
	case m.period != alive || !m.policy.Restarts() || repaired != adopts:
		return r, ""
	case !repaired && (f.Host == f.Parent || root.members.reserve.Len() == 0):
		return endsJob, ""
	case !repaired && f.Nodes > 1:
		return endsJob, "no spare takes its place, since agents below it are lost with it"
	case !repaired && !spares:
		return endsJob, "no spare is left"
	case f.Nodes != 1 || span.Count == 0 || root.number == MaxReplaced || isSilent(f) && !spares:
		return r, ""
	case !repaired:
		return replacesNode, ""
	case m.policy.Rank == Restart && m.RestartsAll():
		return losesRanks, ""
	case Covers(m.losses.known, span.First) || Covers(m.losses.fresh, span.First):
		return ignored, "" // another agent has reported it
	case m.policy.Rank == RestartAll || !root.pmi:
		return replacesNode, ""
	case root.repairAsked:
		return losesRanks, ""
	}
	return endsJob, UsesPMI
}

// nodeLost handles the loss of a node.
func (m *Machine) nodeLost(ev NodeLost) {
	f, span := ev.Fault, Span{}
	if uint32(f.Node) < m.below.Layout.Nodes() {
		span.First, span.Count = m.below.Layout.SlotsOn(f.Node)
	}
	switch r, why := m.respond(f, span, ev.Repaired); r {
	case endsJob:
		m.endOfLost(f, why)
	case losesRanks:
		m.loseNode(f)
	case replacesNode:
		m.replace(f, span, ev)
	}
}

// endOfLost ends the job because of the loss of a node.
func (m *Machine) endOfLost(f wire.Fault, why string) {
	if why != "" {
		f.Cause = Joined(f.Cause, why)
	}
	m.endJob(f)
	m.sweepLost(f)
}

// loseNode handles a loss after which the job continues. The loss is still the reason for a failure of the job.
func (m *Machine) loseNode(f wire.Fault) {
	if m.RestartsAll() && m.period != ending {
		m.endOfLost(f, "all ranks were about to start again")
		return
	}
	m.do(LoseNode{f})
	m.sweepLost(f)
	if !m.Relaunches() || f.Nodes != 1 || uint32(f.Node) >= m.below.Layout.Nodes() {
		return
	}
	if first, count := m.below.Layout.SlotsOn(f.Node); count > 0 && !Covers(m.losses.fresh, first) {
		m.losses.add(Span{first, count}) // its parent has kept the place
	}
}

// replace restarts the ranks of a lost node. The node is swept, and a new agent is ordered on its own host when the
// sweep has succeeded. If the host is silent, was lost before, or the tree is not repaired, a spare replaces it at
// once.
func (m *Machine) replace(f wire.Fault, span Span, ev NodeLost) {
	r := &m.root
	at, before := r.lostAt[f.Node]
	r.lostAt[f.Node] = m.now
	p := m.openPlace(f, span)
	if m.policy.Rank == RestartAll {
		m.restartAll(f, span, false, ev.Spawned)
	} else {
		r.faults[span.First] = f
		m.decide(r.director.Failed(m.now, span, false))
	}
	if m.period != alive {
		return
	}
	switch {
	case !ev.Repaired, isSilent(f), before && m.now-at < soon && r.members.Spares.Len() > 0:
		m.nextSpare(p)
	case r.job.Launch.Contain: // the node is not swept
		m.ownHost(p)
	}
}

// openPlace opens the place of a lost node, and sweeps the node.
func (m *Machine) openPlace(f wire.Fault, span Span) *place {
	silent, end := time.Duration(f.SilentMs)*time.Millisecond, ranksEnded
	if m.policy.Agent == Continue {
		end = orphanEnded
	}
	p := &place{fault: f, span: span, lacks: unfencedNode | unreadyAgent, fenceAt: m.now - silent + end}
	if silent >= AgentTimeout {
		p.fenceAt = m.now + stoppedEnded
	}
	if old := m.root.places[f.Node]; old != nil {
		p.fenceAt = max(p.fenceAt, old.fenceAt)
		if old.lacks&(blindSweep|unfencedNode) != 0 {
			p.lacks |= blindSweep
		}
	}
	m.root.places[f.Node] = p
	m.do(Wake{p.fenceAt})
	delete(m.root.sweeps.known, f.Node)
	m.sweepLost(f)
	return p
}

// nextSpare orders an agent on the next spare. If there is none, the ranks are lost in a repaired tree, and the job ends
// otherwise.
func (m *Machine) nextSpare(p *place) {
	node := p.fault.Node
	spare, ok := m.root.members.TakeSpare(m.root.members.Original(node))
	switch {
	case ok:
		m.notice(m.root.host, fmt.Sprintf("spare %s takes the place of %s", spare.Host(0), p.fault.Host))
		m.orderAgent(p, spare)
	case m.Relaunches():
		p.fault.Cause = Joined(p.fault.Cause, "there is no spare for its ranks")
		delete(m.root.places, node)
		m.loseNode(p.fault)
	default:
		p.fault.Cause = Joined(p.fault.Cause, "no spare is left")
		m.endJob(p.fault)
	}
}

// ownHost orders an agent on the host of the lost one.
func (m *Machine) ownHost(p *place) { m.orderAgent(p, m.root.members.host(p.fault.Node)) }

// orderAgent orders an agent for a place.
func (m *Machine) orderAgent(p *place, host job.Run) {
	host.Ranks = p.span.Count
	m.root.number++
	p.number = m.root.number
	m.do(PlaceAgent{wire.Replace{
		Number: p.number, Part: job.Part{First: p.fault.Node, Nodes: job.NewNodes(p.span.First, []job.Run{host})},
	}})
}

// placed handles the answer to a Replace.
func (m *Machine) placed(answer wire.Replaced) {
	p := m.root.places[answer.Node]
	switch {
	case p == nil || p.number != answer.Number || m.period != alive:
	case answer.Cause != "":
		node, _ := m.root.members.At(answer.Node)
		host := node.Host
		if s := &m.root.members; s.Replaced[s.Original(answer.Node)] == host {
			host = "spare " + host
		}
		m.notice(m.root.host, fmt.Sprintf("%s could not be started: %s", host, answer.Cause))
		m.nextSpare(p)
	default:
		m.found(p, unreadyAgent)
	}
}

// found records that a condition is not missing any more. If none is missing, the ranks are restarted.
func (m *Machine) found(p *place, condition missing) {
	p.lacks &^= condition
	if p.lacks&(unfencedNode|unreadyAgent) == 0 {
		delete(m.root.places, p.fault.Node)
		m.decide(m.root.director.Fenced(p.span))
	}
}

// placeSwept handles the end of a sweep of a node that is replaced.
func (m *Machine) placeSwept(p *place, ev NodeSwept) {
	switch {
	case ev.Left != "":
		p.fault.Cause = Joined(p.fault.Cause, ev.Left)
		m.endJob(p.fault)
	case ev.Cause == "":
		if p.number == 0 && m.Relaunches() {
			m.ownHost(p)
		}
		if p.lacks&blindSweep == 0 {
			m.found(p, unfencedNode)
		}
	case p.number == 0:
		p.fault.Cause = Joined(p.fault.Cause, "nobody can look at its node: "+ev.Cause)
		m.nextSpare(p)
	}
}

// fencesDue records that nodes that could not be swept are fenced, because their agents have ended.
func (m *Machine) fencesDue() {
	for _, node := range slices.Sorted(maps.Keys(m.root.places)) {
		switch p := m.root.places[node]; {
		case p.lacks&unfencedNode == 0:
		case p.fenceAt > m.now:
			m.do(Wake{p.fenceAt})
		default:
			m.found(p, unfencedNode)
		}
	}
}
