// Package agent connects a core, the state machine of one agent, to the operating system. It turns system events into
// events of the core, and performs the effects of the core as system calls. The core makes the decisions.
//
// One goroutine, the loop, owns the core. Each link has a goroutine that reads and one that writes. Each session that
// is being opened has a goroutine, too. The packages spawn and remote start further goroutines. Only the loop accesses
// the state; the other goroutines post events to it.
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
	"ibrun/bootstrap/remote"
	"ibrun/bootstrap/spawn"
	"ibrun/internal/job"
)

// eventQueue is the maximum number of events that wait for the loop. A goroutine that posts to a full queue blocks, so
// it also stops reading from its link.
const eventQueue = 256

// loop holds the core of one agent and the state that connects it to the operating system.
type loop struct {
	core     *core.Core
	began    time.Time
	events   chan any      // core.Event, sessionUp, spawn.Event, fromUp, relink
	over     chan struct{} // closed when run has returned
	timer    *time.Timer
	ctx      context.Context
	up       *link
	sessions map[core.Link]*session
	starting []core.StartChild // children to start after all other effects of the current event are performed
	starter  *remote.Starter
	cores    cores
	ranks    *spawn.Set
	server   *pmi.Server // serves the ranks that use PMI
	pmix     *pmixserver.Server
	charm    *charm.Server
	charmJob *job.Job              // the job that charm serves
	charmAt  *[4]byte              // IPv4 address of this node for Charm++ programs; nil until one starts
	placed   *pmixserver.Placement // placement of this node's ranks for PMIx, from spawn; nil until spawn reports it
	pending  []core.Event          // events that the core has not processed yet; empty while run waits
	warn     func(string)
	timed    bool           // report the CPU time of each session (job.LaunchOptions.Timed)
	lines    bool           // the launcher may hold an agent's output until a line ends
	path     string         // address by which the parent reached this node; empty if unknown
	cutOff   bool           // this agent has closed the link to its parent
	left     int            // exit code of this agent if it has left its job; otherwise 0
	helpers  sync.WaitGroup // goroutines that open sessions
	root     *rootSide      // nil unless this is the root
	tracer   *tracer        // nil without --trace-events, and on a node until Launch is received
	jobID    string
	reaped   bool                  // a reaper started this agent
	handed   bool                  // after the message Join, this agent passed its link to another agent, and ends
	looks    *spawn.Looks          // nil until the first query about the ranks of this node
	daemons  map[uint32]*daemonSet // keyed by the ID of flow.StartDaemons
}

func newLoop(ctx context.Context, cfg core.Config) *loop {
	t := time.NewTimer(time.Hour)
	t.Stop()
	cfg.Join, cfg.Cores, cfg.Most = JoinParcels, min(runtime.NumCPU(), mostCores), mostSessions()
	return &loop{
		core: core.New(cfg), path: cfg.Path, began: time.Now(), ctx: ctx,
		events: make(chan any, eventQueue), over: make(chan struct{}),
		timer: t, sessions: map[core.Link]*session{}, daemons: map[uint32]*daemonSet{},
		warn: func(string) {},
	}
}

// post sends ev to the loop. It blocks while the queue is full, and drops ev if the loop has ended.
func (l *loop) post(ev any) {
	select {
	case l.events <- ev:
	case <-l.over:
	}
}

// linkTo returns the link to the parent (core.Up) or to the child with the given number.
func (l *loop) linkTo(to core.Link) *link {
	if to == core.Up {
		return l.up
	}
	return l.sessions[to].link
}

// keep returns the IDs of the processes that carry this agent's sessions. A sweep must not kill them.
func (l *loop) keep() []int {
	var pids []int
	for _, s := range l.sessions {
		if s.remote != nil {
			pids = append(pids, s.remote.Pids()...)
		}
	}
	return pids
}

// fold closes the links to all children and ends their sessions. It returns when the goroutines that open sessions and
// the starters of a resource manager have ended.
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
			<-s.remote.Done() // does not block forever, because the session ends or Kill ends it
		}
	}
}

// session holds the remote shell of a child. It exists from StartChild or JoinChild on. The fields remote and link are
// nil until the shell has started the agent. The field cancel is nil after closeLink.
type session struct {
	cancel context.CancelFunc
	remote *remote.Session
	link   *link
}

// sessionUp reports to the loop that the session to a child is open.
type sessionUp struct {
	child   core.Link
	session *remote.Session
}
