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

// controlSide answers the callers of the control socket (docs/dev/decisions/0025-control.md).
type controlSide struct {
	listener *control.Listener
	job      atomic.Pointer[job.Job]
	host     string
	began    time.Time
	tap      *Tap
	state    atomic.Uint32 // of states
	tickets  atomic.Uint32
	loop     *loop

	final    chan struct{}  // closed when all that ranks have printed is in the tap
	attached sync.WaitGroup // those who still read it

	mu    sync.Mutex
	waits map[uint32]chan rankwire.Standings // by ticket, each of capacity 1
	execs map[uint32]*exec                   // the same; those that have not ended
	tool  tool
	ended bool // nobody is waited for any more

	changes map[uint32]chan core.ResizeTold // of the job's size, each of capacity 2: ready, and over
}

// states of a job, for its user.
var states = [...]string{"launching", "running", "ending"}

// listen opens the control socket, or says why there is none: the job goes on.
func (l *loop) listen(cfg RootConfig) *controlSide {
	listener, err := control.Listen(cfg.Job.ID)
	c := &controlSide{listener: listener, host: cfg.Host, began: time.Now(), tap: &Tap{}, loop: l,
		final: make(chan struct{}), waits: map[uint32]chan rankwire.Standings{}, execs: map[uint32]*exec{},
		changes: map[uint32]chan core.ResizeTold{}}
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

// attachedPatience is how long the end of a job waits for those who are attached to take the rest.
const attachedPatience = time.Second

// close ends the socket, if there is one. All output has been written.
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

// launched notes that all ranks run.
func (c *controlSide) launched() {
	if c != nil && c.state.CompareAndSwap(0, 1) {
		c.toolReady()
	}
}

// take gives an answer to who waits for it.
func (c *controlSide) take(m wire.Reply) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if wait := c.waits[m.ID]; wait != nil {
		wait <- m.Standings
		delete(c.waits, m.ID)
	}
}

// The patience of questions, in milliseconds. Stacks of many ranks take a tool some time.
const (
	lookPatienceMs  = 10_000
	stackPatienceMs = 60_000
)

// ask lets the core ask the job.
func (c *controlSide) ask(q rankwire.Question, gone <-chan struct{}) (rankwire.Standings, bool) {
	ticket := c.tickets.Add(1)
	wait := make(chan rankwire.Standings, 1)
	c.mu.Lock()
	c.waits[ticket] = wait
	c.mu.Unlock()
	c.loop.post(core.Asked{Query: wire.Query{ID: ticket, Question: q}})
	select {
	case s := <-wait:
		return s, true
	case <-gone:
	case <-c.loop.over:
	}
	c.mu.Lock()
	delete(c.waits, ticket)
	c.mu.Unlock()
	return rankwire.Standings{}, false
}

// about is what is known of the job without asking.
func (c *controlSide) about() *control.Job {
	j, program := c.job.Load(), ""
	if len(j.Programs) > 0 {
		program = j.Programs[0].Argv[0]
	}
	return &control.Job{ID: j.ID, PID: os.Getpid(), Host: c.host, Program: program, Ranks: j.Size, Nodes: j.Nodes,
		Since: c.began, State: states[c.state.Load()]}
}

// stay lets the end of the job wait for a caller, unless it does not any more.
func (c *controlSide) stay() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		c.attached.Add(1)
	}
	return !c.ended
}
