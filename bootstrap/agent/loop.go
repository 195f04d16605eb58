// Package agent drives one agent: it turns events of the system into events
// of a core, and a core's effects into system calls. It decides nothing.
//
// Goroutines: one loop that owns the core; a reader and a writer per link; a
// starter per session that is coming up; what spawn and remote need of their
// own. State is touched by the loop alone; all others post events.
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

// eventQueue is the number of events that may wait for the loop. Posting to a
// full queue waits: readers then stop reading, which is the back-pressure.
const eventQueue = 256

// loop runs one core.
type loop struct {
	core     *core.Core
	began    time.Time
	events   chan any // core.Event, sessionUp, spawn.Event
	over     chan struct{}
	timer    *time.Timer
	ctx      context.Context
	up       *link
	sessions map[core.Link]*session
	starting []core.StartChild // of the effects that are performed
	starter  *remote.Starter
	cores    cores
	ranks    *spawn.Set
	server   *pmi.Server // of ranks that use PMI
	pmix     *pmixserver.Server
	charm    *charm.Server
	charmJob *job.Job        // that the server is of
	charmAt  *[4]byte        // this node's address for datagrams; nil: not looked for
	placed   *spawn.PMIxNode // what that was told of this node; nil: nothing yet
	pending  []core.Event    // that the core has not taken yet; empty between events
	warn     func(string)
	timed    bool           // the launch
	lines    bool           // what agents write to their parents may be held until a line ends
	path     string         // address that this node was reached by; or empty
	cutOff   bool           // the link to the parent was given up as silent
	helpers  sync.WaitGroup // starters of sessions
	root     *rootSide      // nil unless this is the root
	tracer   *tracer        // nil without --trace-events; on a node, also before Launch is received
	jobID    string
	reaped   bool                  // there is a reaper above this agent
	handed   bool                  // its link is another agent's, which has ended
	looks    *spawn.Looks          // nil until the first question about the ranks of this node
	daemons  map[uint32]*daemonSet // by the number of their order; nil: there are none
}

func newLoop(ctx context.Context, cfg core.Config) *loop {
	t := time.NewTimer(time.Hour)
	t.Stop()
	cfg.Join, cfg.Cores, cfg.Most = JoinParcels, min(runtime.NumCPU(), mostCores), mostSessions()
	return &loop{
		core: core.New(cfg), path: cfg.Path, began: time.Now(), ctx: ctx,
		events: make(chan any, eventQueue), over: make(chan struct{}),
		timer: t, sessions: map[core.Link]*session{},
		warn: func(string) {},
	}
}

// post hands an event to the loop; after its end it does nothing.
func (l *loop) post(ev any) {
	select {
	case l.events <- ev:
	case <-l.over:
	}
}

func (l *loop) linkTo(to core.Link) *link {
	if to == core.Up {
		return l.up
	}
	return l.sessions[to].link
}

// keep lists the processes of this agent's own sessions, which a sweep spares.
func (l *loop) keep() []int {
	var pids []int
	for _, s := range l.sessions {
		if s.remote != nil {
			pids = append(pids, s.remote.Pids()...)
		}
	}
	return pids
}

// fold ends every session: each child sees the end of its stream.
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
			<-s.remote.Done() // it would die with this process; Kill bounds it
		}
	}
}

// session is a child's remote shell from the order to start it on.
type session struct {
	cancel context.CancelFunc
	remote *remote.Session
	link   *link
}

// sessionUp carries a session from its starter to the loop.
type sessionUp struct {
	child   core.Link
	session *remote.Session
}
