// Package agent connects a core, the state machine of one agent, to the operating system. It turns system events into
// events of the core, and performs the effects of the core as system calls. The core makes the decisions.
//
// One goroutine, the loop, owns the core. Each link has a goroutine that reads and one that writes. Each session that
// is being opened has a goroutine, too. The packages spawn and remote start further goroutines. Only the loop accesses
// the state; the other goroutines report events to it (events.go).
package agent

import (
	"context"
	"runtime"
	"sync"
	"time"

	"ibrun/bootstrap/clients/charm"
	"ibrun/bootstrap/clients/pmi"
	"ibrun/bootstrap/clients/pmixserver"
	"ibrun/bootstrap/core"
	"ibrun/bootstrap/core/flow"
	"ibrun/bootstrap/remote"
	"ibrun/bootstrap/spawn"
	"ibrun/internal/job"
)

// eventQueue is the maximum number of events that wait for the loop. A goroutine that reports an event to a full queue
// blocks, so it also stops reading from its link.
const eventQueue = 256

// loop holds the core of one agent and the state that connects it to the operating system.
type loop struct {
	core     *core.Core
	began    time.Time
	events   chan event    // capacity eventQueue; never closed, because it has many senders
	over     chan struct{} // closed when run has returned
	timer    *time.Timer
	ctx      context.Context
	up       *link
	sessions map[core.Link]*session
	starting []core.StartChild // children to start after all other effects of the current event are performed
	starter  *remote.Starter
	cores    cores
	ranks    *spawn.Set
	server   *pmi.Server // serves the ranks that use PMI; nil until core.Fork
	pmix     *pmixserver.Server
	charm    *charm.Server
	charmJob *job.Job              // the job that charm serves
	charmAt  *[4]byte              // IPv4 address of this node for Charm++ programs; nil until the first one starts
	placed   *pmixserver.Placement // placement of this node's ranks for PMIx, from spawn; nil until spawn reports it
	pending  []core.Event          // events that the core has not processed yet; empty while run waits
	warn     func(string)
	timed    bool           // report the CPU time of each session (job.LaunchOptions.Timed)
	lines    bool           // the launcher may hold an agent's output until a line ends
	path     string         // address by which the parent reached this node; empty if unknown
	cutOff   bool           // this agent has closed the link to its parent, and has no new parent
	left     int            // exit code of this agent after the effect core.Leave; 0 before
	helpers  sync.WaitGroup // goroutines that open sessions to children, or sweep other nodes
	root     *rootSide      // state of the root; nil on all other agents
	tracer   *tracer        // writes the trace of --trace-events; nil without it, and on a node before Launch arrives
	jobID    string
	reaped   bool                  // a reaper started this agent
	handed   bool                  // the message Join was performed (see handOver), so this agent ends
	looks    *spawn.Looks          // nil until the first query about the ranks of this node
	daemons  map[uint32]*daemonSet // daemons on this node, keyed by the ID of flow.StartDaemons
}

func newLoop(ctx context.Context, cfg core.Config) *loop {
	t := time.NewTimer(time.Hour)
	t.Stop()
	cfg.Join, cfg.Cores, cfg.Most = JoinParcels, min(runtime.NumCPU(), mostCores), mostSessions()
	return &loop{
		core: core.New(cfg), path: cfg.Path, began: time.Now(), ctx: ctx,
		events: make(chan event, eventQueue), over: make(chan struct{}),
		timer: t, sessions: map[core.Link]*session{}, daemons: map[uint32]*daemonSet{},
		warn: func(string) {},
	}
}

// event is an element of the loop's channel events.
type event interface {
	// handle processes the event in the goroutine of the loop. It calls hear for each event that the core must process.
	handle(l *loop)
}

// toCore wraps an event that the loop passes to its core unchanged.
type toCore struct{ core.Event }

func (e toCore) handle(l *loop) { l.hear(e.Event) }

// hear appends ev to the events that the core has not processed yet. It ignores ev if that is nil.
func (l *loop) hear(ev core.Event) {
	if ev != nil {
		l.pending = append(l.pending, ev)
	}
}

// post queues ev for the loop. It blocks while the queue is full. It returns false if it has dropped ev because the
// loop has ended.
func (l *loop) post(ev event) bool {
	select {
	case l.events <- ev:
		return true
	case <-l.over:
		return false
	}
}

func (l *loop) ChildPhase(ev core.ChildPhase)   { l.post(toCore{ev}) }
func (l *loop) ChildFailed(ev core.ChildFailed) { l.post(toCore{ev}) }
func (l *loop) JoinRefused(ev core.JoinRefused) { l.post(toCore{ev}) }
func (l *loop) NodeSwept(ev core.NodeSwept)     { l.post(toCore{ev}) }
func (l *loop) Probed(ev core.Probed)           { l.post(toCore{ev}) }
func (l *loop) Notice(ev core.Notice)           { l.post(toCore{ev}) }

func (l *loop) Interrupted(ev core.Interrupted)   { l.post(toCore{ev}) }
func (l *loop) NodeSignal(ev core.NodeSignal)     { l.post(toCore{ev}) }
func (l *loop) EndRequested(ev core.EndRequested) { l.post(toCore{ev}) }
func (l *loop) ReaperLost(ev core.ReaperLost)     { l.post(toCore{ev}) }
func (l *loop) Killed(ev core.Killed)             { l.post(toCore{ev}) }
func (l *loop) Swept(ev core.Swept)               { l.post(toCore{ev}) }
func (l *loop) JobSwept(ev core.JobSwept)         { l.post(toCore{ev}) }
func (l *loop) NodeEmptied(ev core.NodeEmptied)   { l.post(toCore{ev}) }
func (l *loop) Inspected(ev core.Inspected)       { l.post(toCore{ev}) }

func (l *loop) StdinRead(ev core.StdinRead)   { l.post(toCore{ev}) }
func (l *loop) Wrote(ev core.Wrote)           { l.post(toCore{ev}) }
func (l *loop) SinkFailed(ev core.SinkFailed) { l.post(toCore{ev}) }

func (l *loop) JobAnswered(ev core.JobAnswered)       { l.post(toCore{ev}) }
func (l *loop) JobAsked(ev core.JobAsked)             { l.post(toCore{ev}) }
func (l *loop) JobEnded(ev core.JobEnded)             { l.post(toCore{ev}) }
func (l *loop) ParentAnswered(ev core.ParentAnswered) { l.post(toCore{ev}) }

func (l *loop) Asked(ev core.Asked)               { l.post(toCore{ev}) }
func (l *loop) ResizeAsked(ev core.ResizeAsked)   { l.post(toCore{ev}) }
func (l *loop) CCSAsked(ev core.CCSAsked)         { l.post(toCore{ev}) }
func (l *loop) DaemonsAsked(ev flow.DaemonsAsked) { l.post(toCore{ev}) }
func (l *loop) DaemonsTaken(ev flow.DaemonsTaken) { l.post(toCore{ev}) }
func (l *loop) DaemonsKept(ev flow.DaemonsKept)   { l.post(toCore{ev}) }
func (l *loop) DaemonsLeft(ev flow.DaemonsLeft)   { l.post(toCore{ev}) }
func (l *loop) DaemonFed(ev flow.DaemonFed)       { l.post(toCore{ev}) }
func (l *loop) SessionAsked(ev flow.SessionAsked) { l.post(toCore{ev}) }
func (l *loop) SessionSent(ev flow.SessionSent)   { l.post(toCore{ev}) }
func (l *loop) SessionTaken(ev flow.SessionTaken) { l.post(toCore{ev}) }

func (l *loop) LinkLost(ev core.LinkLost) { l.post(toCore{ev}) }

func (l *loop) ForkDone(ev core.ForkDone)               { l.post(toCore{ev}) }
func (l *loop) Placed(ev core.Placed)                   { l.post(toCore{ev}) }
func (l *loop) MPIFindings(ev core.MPIFindings)         { l.post(toCore{ev}) }
func (l *loop) RankOutput(ev core.RankOutput)           { l.post(toCore{ev}) }
func (l *loop) RankInputRead(ev core.RankInputRead)     { l.post(toCore{ev}) }
func (l *loop) RankInputClosed(ev core.RankInputClosed) { l.post(toCore{ev}) }
func (l *loop) RankFenced(ev core.RankFenced)           { l.post(toCore{ev}) }
func (l *loop) Respawned(ev core.Respawned)             { l.post(toCore{ev}) }

func (l *loop) MemberFrame(ev flow.MemberFrame)             { l.post(toCore{ev}) }
func (l *loop) DaemonOutput(ev flow.DaemonOutput)           { l.post(toCore{ev}) }
func (l *loop) DaemonInputRead(ev flow.DaemonInputRead)     { l.post(toCore{ev}) }
func (l *loop) DaemonInputClosed(ev flow.DaemonInputClosed) { l.post(toCore{ev}) }

func (l *loop) Warn(text string) { l.post(warning(text)) }

// warning is an event with a text that the loop passes to l.warn.
type warning string

func (e warning) handle(l *loop) { l.warn(string(e)) }

// linkTo returns the link to the parent (core.Up) or to the child with the given number.
func (l *loop) linkTo(to core.Link) *link {
	if to == core.Up {
		return l.up
	}
	return l.sessions[to].link
}

// keep returns the IDs of the processes that carry this agent's sessions to children. A sweep of this node must not
// kill them.
func (l *loop) keep() []int {
	var pids []int
	for _, s := range l.sessions {
		if s.remote != nil {
			pids = append(pids, s.remote.Pids()...)
		}
	}
	return pids
}

// fold closes the links to all children and ends their sessions. It waits for the goroutines in l.helpers, and for the
// end of all sessions that the starter of a resource manager, such as srun, carries.
func (l *loop) fold() {
	for k, s := range l.sessions {
		if s.link != nil {
			s.link.drain(0)
		}
		l.closeLink(k)
	}
	l.helpers.Wait()
	for _, s := range l.sessions {
		if s.remote != nil && s.remote.Managed() {
			<-s.remote.Done() // closed soon, because closeLink has killed the session
		}
	}
}

// session represents the connection to one child, from the effect StartChild or JoinChild on.
type session struct {
	cancel context.CancelFunc // stops the opening of the session; nil after closeLink
	remote *remote.Session    // nil until the session is open
	link   *link              // nil until the session is open
}
