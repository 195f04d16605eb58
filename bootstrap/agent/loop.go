// Package agent drives one agent: it turns events of the system into events
// of a core, and a core's effects into system calls. It decides nothing.
//
// Goroutines: one loop that owns the core; a reader and a writer per link; a
// starter per session that is coming up; what spawn and remote need of their
// own. State is touched by the loop alone; all others post events.
package agent

import (
	"context"
	"errors"
	"io"
	"runtime"
	"sync"
	"time"

	"ibrun/bootstrap/clients/charm"
	"ibrun/bootstrap/clients/pmi"
	"ibrun/bootstrap/clients/pmixserver"
	"ibrun/bootstrap/core"
	"ibrun/bootstrap/remote"
	"ibrun/bootstrap/spawn"
	"ibrun/bootstrap/wire"
	"ibrun/internal/job"
)

// eventQueue is the number of events that may wait for the loop. Posting to a
// full queue waits: readers then stop reading, which is the back-pressure.
const eventQueue = 256

// session is a child's remote shell from the order to start it on.
type session struct {
	cancel context.CancelFunc
	remote *remote.Session
	link   *link
}

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
	server   *pmi.Server // of ranks
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
	tracer   *tracer        // nil unless --trace-events is given
	jobID    string
	reaped   bool                  // there is a reaper above this agent
	handed   bool                  // its link is another agent's, which has ended
	looks    *spawn.Looks          // nil: nobody has asked for its ranks
	daemons  map[uint32]*daemonSet // by the number of their order; nil: there are none
}

// sessionUp carries a session from its starter to the loop.
type sessionUp struct {
	child   core.Link
	session *remote.Session
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

// run steps the core until it is done.
func (l *loop) run() {
	defer close(l.over)
	for {
		select {
		case got := <-l.events:
			l.translate(got)
			if l.handed {
				return
			}
		case <-l.timer.C:
			l.hear(core.Tick{})
		}
		for len(l.pending) > 0 {
			ev := l.pending[0]
			l.pending = l.pending[1:]
			now := time.Since(l.began)
			effects := l.core.Step(now, ev)
			l.tracer.add(now, ev, effects)
			for _, e := range effects {
				if l.perform(e) {
					return
				}
			}
			l.startChildren()
		}
	}
}

// hear lets the core take an event, if there is one, when it has taken those
// before it.
func (l *loop) hear(ev core.Event) {
	if ev != nil {
		l.pending = append(l.pending, ev)
	}
}

// translate takes in what is not an event of the core yet.
func (l *loop) translate(got any) {
	switch got := got.(type) {
	case sessionUp:
		l.hear(l.connected(got))
	case fromUp:
		if got.link == l.up {
			l.translate(got.event)
		}
	case relink:
		l.relinked(got)
	case core.Frame:
		if m, ok := got.Msg.(wire.Join); ok && l.starter == nil && l.root == nil {
			l.handOver(m)
			l.handed = true
			return
		}
		if m, ok := got.Msg.(wire.Launch); ok && l.starter == nil {
			if err := l.launched(m.Job); err != nil {
				l.hear(core.LinkLost{Link: core.Up, Cause: err.Error()})
				return
			}
			if m.Job.Launch.Repair {
				l.listenJoins(m.Job.ID, m.First, m.Level-1)
			}
			l.hear(got)
			l.traceNode(m.Job.Launch.TraceEvents, m.Nodes.At(0).Host)
			return
		}
		l.hear(got)
	case core.Event:
		l.hear(got)
	case spawn.ForkDone:
		l.hear(l.spawnEvent(got))
	default:
		l.fromRanks(got)
	}
}

// perform does one effect and reports whether it was the last.
func (l *loop) perform(e core.Effect) (last bool) {
	switch e := e.(type) {
	case core.Send:
		l.linkTo(e.To).send(e.Msg)
	case core.StartChild:
		l.starting = append(l.starting, e)
	case core.ObserveSessions:
		l.hear(core.SessionsObserved{Ran: l.starter.Ran()})
	case core.JoinChild:
		l.joinChild(e)
	case core.CloseLink:
		l.closeLink(e.Link)
	case core.SetTimer:
		l.timer.Reset(max(0, e.At-time.Since(l.began)))
	case core.Probe:
		l.probe(e.Link)
	case core.Finish:
		return true
	case core.Done:
		l.root.end(e.Outcome)
		return true
	default:
		if !l.performRanks(e) {
			l.root.perform(l, e)
		}
	}
	return false
}

func (l *loop) linkTo(to core.Link) *link {
	if to == core.Up {
		return l.up
	}
	return l.sessions[to].link
}

// startChildren opens the sessions that the core wants now, together if that is possible.
func (l *loop) startChildren() {
	targets := make([]*remote.Target, len(l.starting))
	for i, e := range l.starting {
		targets[i] = &remote.Target{Host: e.Node.Host, User: e.Node.User, Local: e.Local, Most: e.Most}
	}
	if len(targets) > 1 {
		l.starter.Share(targets)
	}
	for i, e := range l.starting {
		l.startChild(e, *targets[i])
	}
	l.starting = l.starting[:0]
}

// startChild opens a session in a goroutine of its own.
func (l *loop) startChild(e core.StartChild, target remote.Target) {
	ctx, cancel := context.WithCancel(l.ctx)
	l.sessions[e.Child] = &session{cancel: cancel}
	l.cores.begin()
	l.helpers.Go(func() {
		defer l.cores.end()
		s, err := l.starter.Start(ctx, target, func(p remote.Phase) {
			l.post(core.ChildPhase{Child: e.Child, Phase: string(p), Moment: moment(p)})
		})
		if err != nil {
			l.post(failed(e.Child, err))
			return
		}
		select {
		case l.events <- sessionUp{e.Child, s}:
		case <-l.over:
			s.Kill()
		}
	})
}

// connected takes over a session that is up, unless it was given up meanwhile.
func (l *loop) connected(up sessionUp) core.Event {
	s := l.sessions[up.child]
	if s.cancel == nil {
		up.session.Kill()
		return nil
	}
	s.remote, s.link = up.session, newLink()
	go s.link.write(up.session.Stdin)
	go func() {
		err := read(up.session.Stdout, up.child, l.lines, l.post)
		cause, tail := l.ended(up.session, err)
		up.session.Release()
		l.post(core.LinkLost{Link: up.child, Cause: cause, Tail: tail})
	}()
	cpu := up.session.CPU()
	ev := core.ChildUp{Child: up.child, Spent: cpu + l.cores.spent()}
	if l.timed {
		ev.CPU = cpu
	}
	return ev
}

// causeWait is how long the end of a stream waits for the end of its session,
// which says why.
const causeWait = 500 * time.Millisecond

func (l *loop) ended(s *remote.Session, err error) (cause, tail string) {
	if err != io.EOF {
		s.Kill()
		return err.Error(), s.Tail()
	}
	select {
	case <-s.Done():
	case <-time.After(causeWait):
	}
	return s.Cause(), s.Tail()
}

func (l *loop) closeLink(k core.Link) {
	if k == core.Up {
		l.cutOff = true
		l.up.giveUp() // the process ends soon, and the stream with it
		return
	}
	s := l.sessions[k]
	if s == nil || s.cancel == nil {
		return
	}
	s.cancel()
	s.cancel = nil
	if s.remote != nil {
		s.link.finish()
		s.remote.Kill()
	}
}

func (l *loop) probe(k core.Link) {
	s := l.sessions[k]
	go func() {
		var evidence remote.Evidence
		known := false
		switch {
		case k == core.Up:
			evidence, known = remote.UpstreamEvidence()
		case s != nil && s.remote != nil:
			evidence, known = s.remote.Evidence()
		}
		l.post(core.Probed{Link: k, Known: known, Resent: evidence.Resent, Waits: evidence.Waits,
			Acked: evidence.Acked})
	}()
}

func failed(child core.Link, err error) core.ChildFailed {
	f := core.ChildFailed{Child: child, Phase: "start", Cause: err.Error()}
	var e *remote.Error
	if errors.As(err, &e) {
		f.Phase, f.Cause, f.Tail = string(e.Phase), e.Cause, e.Tail
		if e.Hint != "" {
			f.Cause += "; " + e.Hint
		}
	}
	return f
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

// launched prepares the starter when the job is known.
func (l *loop) launched(j *job.Job) error {
	opt := remote.Options{}
	if j.Launch.Verbose {
		opt.Notify = func(text string) { l.post(core.Notice{Text: text}) }
	}
	s, err := remote.New(j.Launch, opt)
	l.starter, l.timed, l.jobID, l.lines = s, j.Launch.Timed, j.ID, j.Launch.LineBuffered()
	if l.up != nil {
		l.up.lines.Store(l.lines)
	}
	return err
}
