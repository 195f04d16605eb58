package recovery

import (
	"time"

	"ibrun/bootstrap/core/subtree"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// root is the part of a Machine's state that only the root uses.
type root struct {
	job         *job.Job
	host        string // host of the root
	members     Members
	repairAsked bool // as in Open
	pmi         bool // ranks use PMI

	director Director
	faults   map[job.Slot]wire.Fault         // newest failure of ranks that are restarted, by the first of these ranks
	abort    wire.Fault                      // pending abort; it ends the job at abortAt unless all ranks restart
	places   map[job.NodeIndex]*place        // lost nodes whose ranks are to be restarted
	number   uint32                          // number of the newest Replace; 0 means none
	lostAt   map[job.NodeIndex]time.Duration // time of the last loss of each replaced node
	sweeps   sweeps
	abortAt  time.Duration // time at which abort ends the job; 0 means that no abort is pending
}

// abortPatience is the time that the root waits after the abort of a rank before it ends the job. MPI libraries abort
// when a peer has died. In that case the failure of the peer arrives in this time, and all ranks are restarted.
const abortPatience = 300 * time.Millisecond

// openRoot initializes the state that only the root uses.
func (m *Machine) openRoot(ev Open) {
	m.root = root{
		job: ev.Job, host: ev.Host, members: ev.Members, repairAsked: ev.RepairAsked, director: newDirector(ev.Limit),
		faults: map[job.Slot]wire.Fault{}, places: map[job.NodeIndex]*place{}, lostAt: map[job.NodeIndex]time.Duration{},
		sweeps: sweeps{known: map[job.NodeIndex]bool{}, running: map[job.NodeIndex]bool{}},
	}
}

// rootEvent handles an event that only the root uses.
func (m *Machine) rootEvent(ev Event) {
	r := &m.root
	switch ev := ev.(type) {
	case Failure:
		f, of := ev.Fault, Span{ev.Fault.Rank, ev.Fault.Count}
		if f.What == wire.FaultRollback || m.policy.Rank == RestartAll {
			m.restartAll(f, of, true, ev.Spawned)
			return
		}
		r.faults[f.Rank] = f
		m.decide(r.director.Failed(m.now, of, true))
	case NodeLost:
		r.sweeps.session = ev.Session
		m.nodeLost(ev)
	case EndedBy:
		r.sweeps.session = ev.Session
		m.sweepLost(ev.Fault)
	case Sweeping:
		r.sweeps.session = ev.Session
		m.sweepRest(ev.Ends)
	case NodeSwept:
		m.swept(ev)
	case ChildrenSilent:
		r.sweeps.becomeBelow(silentBelow)
	case PMIUsed:
		r.pmi = true
	case Abort:
		if r.abortAt == 0 && !r.director.Recalls() {
			r.abort, r.abortAt = ev.Fault, m.now+abortPatience
			m.do(Wake{r.abortAt})
		}
	}
}

// restartAll restarts all ranks, because the ranks in the parameter of have failed or one of them asks for a restart.
// It ends the job instead if spawned jobs run or some ranks are lost for good. f describes the failure or the request.
// fenced is as in Director.Failed.
func (m *Machine) restartAll(f wire.Fault, of Span, fenced, spawned bool) {
	r := &m.root
	r.faults[of.First] = f
	r.abort, r.abortAt = wire.Fault{}, 0
	switch {
	case spawned:
		m.giveUp(of, "all ranks were to start again, and jobs that they have spawned run")
	case m.policy.Agent == Continue && m.losses.known.Len()+m.losses.fresh.Len() > 0:
		m.giveUp(of, "all ranks were to start again, and some are lost for good")
	default:
		m.decide(r.director.FailedAll(m.now, of, Span{Count: m.below.Layout.Ranks()}, !fenced))
		m.do(ForgetNames{})
	}
}

// decide performs the decisions of the Director.
func (m *Machine) decide(decisions []Decision) {
	for _, d := range decisions {
		switch d.Do {
		case RecallAll:
			m.recall(wire.Recall{Serial: d.Serial, GraceMs: ms(m.root.job.Launch.Grace)})
		case AnnounceFloor:
			m.do(Announce{d.Serial, d.Span, d.Epoch})
		case StartRanks:
			m.respawn(wire.Respawn{Serial: d.Serial, First: d.Span.First, Count: d.Span.Count, Epoch: d.Epoch})
		case ReportRestart:
			m.do(Restarting{Fault: m.root.faults[d.Of.First], All: d.Span != d.Of, Number: d.Number})
		case GiveUp:
			m.giveUp(d.Of, d.Why)
		}
	}
}

// giveUp ends the job for the reason why, because the failed ranks in the parameter of cannot be restarted.
func (m *Machine) giveUp(of Span, why string) {
	f := m.root.faults[of.First]
	if f.What != wire.FaultFork {
		f.Cause = Joined(f.Cause, why)
	}
	m.endJob(f)
}

// Joined returns a and b, separated by "; ". If a is empty, it returns b.
func Joined(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}

// respawned handles the result of a Respawn from a child's subtree. Every agent but the root forwards it to its parent.
func (m *Machine) respawned(msg wire.Respawned) {
	switch {
	case !m.below.Root:
		m.send(subtree.Up, msg)
		return
	case m.period == ending:
		return
	case msg.Code != 0:
		f := m.root.faults[msg.First]
		f.What, f.Rank, f.Count, f.Node = wire.FaultFork, msg.First, msg.Count, m.below.Layout.NodeOf(msg.First)
		node, _ := m.root.members.At(f.Node)
		f.Host = node.Host
		f.Cause = Joined(msg.Cause, "it was to start again after it had failed")
		f.Status = job.Status{Kind: job.NotRun, Code: msg.Code}
		m.root.faults[msg.First] = f
	}
	m.decide(m.root.director.Respawned(msg.Serial, Span{msg.First, msg.Count}, msg.Cause))
}

// endJob ends the job because of the failure f.
func (m *Machine) endJob(f wire.Fault) {
	m.becomeEnding()
	m.do(EndJob{f})
}

// notice shows the user the message text, which concerns host.
func (m *Machine) notice(host, text string) { m.do(Notice{rankwire.Notice{Host: host, Text: text}}) }

// Members returns the root's record of nodes and spares. The caller may change it.
func (m *Machine) Members() *Members { return &m.root.members }

// abortDue ends the job because of the pending abort if abortPatience has passed. A restart of all ranks has removed
// the abort by then.
func (m *Machine) abortDue() {
	switch r := &m.root; {
	case r.abortAt == 0:
	case m.now < r.abortAt:
		m.do(Wake{r.abortAt})
	default:
		f := r.abort
		r.abort, r.abortAt = wire.Fault{}, 0
		if m.period != ending {
			m.endJob(f)
		}
	}
}
