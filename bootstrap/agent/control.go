package agent

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"ibrun/bootstrap/control"
	"ibrun/bootstrap/core"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// controlSide performs the requests of ibrun ctl and of tools (docs/dev/decisions/0025-control.md). Only the root has a
// controlSide.
type controlSide struct {
	listener *control.Listener
	job      atomic.Pointer[job.Job]
	host     string
	began    time.Time
	tap      *Tap
	state    atomic.Uint32 // index in the array states
	tickets  atomic.Uint32 // newest ID of a query, an order for daemons, a session or a change of size
	queries  replies[uint32, rankwire.Standings]
	changes  replies[uint32, core.ResizeTold]
	events   controlEvents
	over     <-chan struct{} // closed when the loop has ended
	ccs      *ccsSide

	final    chan struct{}  // closed by close, when the tap has received all output of the ranks; no value is sent
	attached sync.WaitGroup // one count for each client for which close waits

	mu    sync.Mutex
	execs map[uint32]*exec // orders by ID, until their daemons have ended or are killed
	tool  tool
	ended bool // close was called; it does not wait for clients that send a request later
}

// caller is a client of the control socket, or the tool that launched the job, with the request that is being
// performed.
type caller struct {
	control.Request
	put  func(control.Response) error // sends a response; fails if the client has disconnected
	gone <-chan struct{}              // closed when the client has disconnected
}

// done sends the last response to the request. If the request was not performed, why is the error message; otherwise
// why is empty.
func (r caller) done(why string) { _ = r.put(control.Response{Error: why, Done: true}) }

// launching is the error in the response to a request that is only possible when all ranks run.
const launching = "the job is being launched: ask again when its ranks run"

// states are the states of a job in the words that ibrun ctl shows, in the order in which a job passes through them.
var states = [...]string{"launching", "running", "ending"}

// listen opens the control socket of the job and starts to perform requests from it and from cfg.Tool. If the socket
// cannot be opened, listen warns the user and the job continues without it.
func (l *loop) listen(cfg RootConfig) *controlSide {
	listener, err := control.Listen(cfg.Job.ID)
	c := &controlSide{listener: listener, host: cfg.Host, began: time.Now(), tap: &Tap{}, events: l,
		over: l.over, ccs: l.root.ccs, final: make(chan struct{}), execs: map[uint32]*exec{}}
	c.job.Store(cfg.Job)
	c.tool.ready, c.tool.debugger = make(chan struct{}), cfg.Debugger
	if err != nil {
		l.warn(fmt.Sprintf("the job cannot be asked by ibrun ctl: %v", err))
	} else {
		cfg.Out.tap = c.tap
		go control.Serve(listener, c.answer)
	}
	if cfg.Tool != nil {
		go c.serveTool(cfg.Tool, cfg.ToolEnds)
	}
	return c
}

// attachedPatience limits how long close waits for clients that have not received all their data.
const attachedPatience = time.Second

// close closes the control socket, if it is open, and waits at most attachedPatience for clients that receive the rest
// of their data. All output of the ranks must be in the tap before the call. A nil controlSide is valid.
func (c *controlSide) close() {
	if c == nil {
		return
	}
	if c.listener != nil {
		c.listener.Close()
	}
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	close(c.final)
	taken := make(chan struct{})
	go func() { c.attached.Wait(); close(taken) }()
	select {
	case <-taken:
	case <-time.After(attachedPatience):
	}
}

// launched sets the state of the job to running, and tells waiting tools that all ranks run. A nil controlSide is
// valid.
func (c *controlSide) launched() {
	if c != nil && c.state.CompareAndSwap(0, 1) {
		c.toolReady()
	}
}

// These constants limit the time in which the nodes must answer a query, in milliseconds. A query for stacks gets more
// time, because a debugger reads them from each rank.
const (
	lookPatienceMs  = 10_000
	stackPatienceMs = 60_000
)

// ask sends the query q to the nodes of the job and returns their merged replies. It returns false if gone is closed or
// the job ends before the replies arrive. A nil gone is never closed.
func (c *controlSide) ask(q rankwire.Question, gone <-chan struct{}) (rankwire.Standings, bool) {
	ticket := c.tickets.Add(1)
	replies, forget := c.queries.await(ticket)
	defer forget()
	c.events.Asked(core.Asked{Query: wire.Query{ID: ticket, Question: q}})
	select {
	case s := <-replies:
		return s, true
	case <-gone:
	case <-c.over:
	}
	return rankwire.Standings{}, false
}

// about returns a description of the job. It sends no query to the nodes.
func (c *controlSide) about() *control.Job {
	j, program := c.job.Load(), ""
	if len(j.Programs) > 0 {
		program = j.Programs[0].Argv[0]
	}
	return &control.Job{ID: j.ID, PID: os.Getpid(), Host: c.host, Program: program, Ranks: j.Size, Nodes: j.Nodes,
		Since: c.began, State: states[c.state.Load()]}
}

// stay makes close wait for a client. The client must call c.attached.Done when it has received all its data. stay
// returns false, without effect, if close was called before.
func (c *controlSide) stay() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		c.attached.Add(1)
	}
	return !c.ended
}
