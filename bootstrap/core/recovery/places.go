package recovery

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"ibrun/bootstrap/wire"
	"ibrun/internal/job"
)

// Causes of the loss of an agent whose host does not answer.
const (
	HostSilent = "its host has not answered for 10 s"
	HostLost   = "its host has not answered for 7 s" // used for a child in a job that restarts ranks
)

// Times of the failure detector, and the times after which a lost agent has ended its ranks.
const (
	Heartbeat    = 2 * time.Second  // an agent sends a heartbeat over a link after this idle time
	AgentTimeout = 60 * time.Second // an agent that is silent for this time is lost, even if its host answers

	// OrphanTimeout is the maximum time that an agent without a parent lets its ranks run, in a job that repairs its
	// tree and restarts ranks. It is measured from the last frame of the lost parent.
	OrphanTimeout = 11500 * time.Millisecond

	// ranksEnded is the maximum time from the last frame that the parent has received from a lost agent until that
	// agent has killed its ranks. The agent kills them when its parent has been silent for 10 s, which it checks once
	// a second. Parent and agent may have received their last frames from each other a Heartbeat apart. One more
	// second allows for different clocks.
	ranksEnded = 11*time.Second + Heartbeat + time.Second
	// orphanEnded is the time corresponding to ranksEnded in a job that repairs its tree.
	orphanEnded = OrphanTimeout + Heartbeat + time.Second
	// stoppedEnded is the maximum time until the ranks of a lost agent have ended if the agent is stopped, but its host
	// answers. It is measured from the loss. The reaper of the agent ends the ranks.
	stoppedEnded = 15 * time.Second

	// soon is the time within which a second loss of the same node causes its replacement by a spare.
	soon = time.Minute
)

// MaxReplaced is the maximum number of Replace orders of a job. The serial numbers of an agent's reports contain the
// number of its Replace in the upper 16 bits.
const MaxReplaced = 1<<16 - 1

// UsesPMI is the reason for the user if a job ends because ranks that have failed or were lost use PMI, and therefore
// cannot be restarted alone.
const UsesPMI = "it uses PMI, so it cannot be restarted alone; hint: --on-failure end, and start the job again"

func isSilent(f wire.Fault) bool { return f.Cause == HostSilent || f.Cause == HostLost }

// missing is a set of conditions that hold for a lost node. The ranks of the node are restarted as soon as neither
// unfencedNode nor unreadyAgent is set.
type missing uint8

const (
	unfencedNode missing = 1 << iota // old processes of the ranks may still run
	unreadyAgent                     // no new agent is ready
	blindSweep                       // old processes may run on an earlier host of the node, which is not swept
)

// place is a lost node whose ranks are to be restarted. The Machine deletes it from root.places when no old process can
// run any more and a new agent is ready.
//
//	lost --own host or spare: Replace--> ordered --Replaced--> ready ---+--> the Director restarts the ranks
//	lost --a sweep has left no process, or fenceAt has come--> fenced --+
//	ordered --Replaced with a cause--> the next spare; without a spare the ranks are lost, or the job ends
type place struct {
	fault   wire.Fault // loss of the agent
	span    Span       // ranks of the node
	lacks   missing
	fenceAt time.Duration // time after which no old process can run any more, even if no sweep has succeeded
	number  uint32        // number of the newest Replace for this node; 0 means none
}

// nodeResponse is the reaction of the root to the loss of a node.
type nodeResponse uint8

const (
	endsJob      nodeResponse = iota // the job ends
	losesRanks                       // the job continues without the ranks of the node
	replacesNode                     // the ranks of the node are restarted by a new agent
	ignored                          // the loss of the node's ranks has been recorded before
)

// respond decides what the root does about the loss of a node. f is the loss, and span contains the ranks of the node.
// repaired says that the parent of the lost agent has adopted the children of the lost agent. If the job ends, why may
// contain a reason to be shown after f.Cause.
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
		return ignored, "" // the ranks are lost for good already
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

// endOfLost ends the job because of the loss of a node, and sweeps the node. why is an additional reason for the user,
// or "".
func (m *Machine) endOfLost(f wire.Fault, why string) {
	if why != "" {
		f.Cause = Joined(f.Cause, why)
	}
	m.endJob(f)
	m.sweepLost(f)
}

// loseNode handles the loss of a node whose ranks are not restarted. The job continues without them, and the loss
// counts as a failure of the job. If all ranks are being restarted, the job ends instead.
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
		m.losses.add(Span{first, count}) // the parent of the lost agent expected a restart and has not reported them
	}
}

// replace restarts the ranks of a lost node, and sweeps the node. In a repaired tree, a new agent is started on the
// same host when the sweep has succeeded. If the sweep fails, a new agent is started on a spare. A spare is used at
// once if the host is silent, if the tree is not repaired, or if a spare is left and the node was also lost within the
// last minute.
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
	case r.job.Launch.Contain: // the kernel has killed the ranks, so no sweep is necessary
		m.ownHost(p)
	}
}

// openPlace records that the ranks of a lost node are to be restarted, and sweeps the node.
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

// nextSpare starts a new agent for the lost node p on the next spare. If no spare is left, the job continues without
// the ranks of p if its tree is repaired, and ends otherwise.
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

// ownHost starts a new agent for the lost node p on the host of the lost agent.
func (m *Machine) ownHost(p *place) { m.orderAgent(p, m.root.members.host(p.fault.Node)) }

// orderAgent starts a new agent for the lost node p on host. It gives the Replace order a new number.
func (m *Machine) orderAgent(p *place, host job.Run) {
	host.Ranks = p.span.Count
	m.root.number++
	p.number = m.root.number
	m.do(PlaceAgent{wire.Replace{
		Number: p.number, Part: job.Part{First: p.fault.Node, Nodes: job.NewNodes(p.span.First, []job.Run{host})},
	}})
}

// placed handles the answer to a Replace at the root. If the new agent could not be started, it tries the next spare.
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

// found removes condition from p.lacks. If the old processes of the node's ranks have ended and a new agent is ready,
// it deletes p and tells the Director, which restarts the ranks.
func (m *Machine) found(p *place, condition missing) {
	p.lacks &^= condition
	if p.lacks&(unfencedNode|unreadyAgent) == 0 {
		delete(m.root.places, p.fault.Node)
		m.decide(m.root.director.Fenced(p.span))
	}
}

// placeSwept handles the result of the sweep of a node whose ranks are to be restarted. If processes have survived, the
// job ends. If the sweep has failed and no new agent was ordered yet, it uses a spare.
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

// fencesDue clears unfencedNode for each lost node whose fenceAt has passed. By that time the lost agent has ended its
// ranks.
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
