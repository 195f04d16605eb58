package agent

import (
	"cmp"
	"ibrun/bootstrap/wire/rankwire"
	"strconv"
	"sync"
	"syscall"

	"ibrun/bootstrap/control"
	"ibrun/bootstrap/core/flow"
	"ibrun/bootstrap/wire"
	"ibrun/internal/hostlist"
	"ibrun/internal/job"
)

// exec is an order for daemons or for a session, with the reports that were not sent to its caller yet. The loop adds
// reports by update, and the goroutine that serves the caller sends them. The core limits the number of bytes that wait
// here, because it forwards more only after the caller has received some.
type exec struct {
	wake chan struct{} // capacity 1; poke sends to it, and drops the value if it is full; never closed

	mu    sync.Mutex
	queue []wire.DaemonOutput // output that was not sent to the caller yet
	over  *flow.DaemonsOver   // how the daemons have ended; nil while they run
	reads bool                // the order is for one daemon, which reads input from the caller
	sessionSide
}

// take removes the queued output from x and returns it. It also returns x.over.
func (x *exec) take() (queue []wire.DaemonOutput, over *flow.DaemonsOver) {
	x.mu.Lock()
	defer x.mu.Unlock()
	queue, x.queue = x.queue, nil
	return queue, x.over
}

// update calls change for the order with the given ID while it holds the locks of c and of the order. It then wakes
// the goroutine that serves the caller of the order. It does nothing if no order has this ID.
func (c *controlSide) update(id uint32, change func(x *exec)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if x := c.execs[id]; x != nil {
		x.mu.Lock()
		change(x)
		x.mu.Unlock()
		poke(x.wake)
	}
}

// daemonsOver records how the daemons of an order have ended, for the caller, and deletes the order from c.execs.
func (c *controlSide) daemonsOver(e flow.DaemonsOver) {
	c.update(e.ID, func(x *exec) {
		x.over = &e
		delete(c.execs, e.ID)
	})
	c.checkTool()
}

// exec performs the request exec: it starts daemons, and sends their output to the caller until all of them have ended.
func (c *controlSide) exec(r caller) {
	if len(r.Command) == 0 || r.Command[0] == "" {
		r.done("exec needs a command")
		return
	}
	var hosts []string
	if r.Hosts != "" {
		list, err := hostlist.Names(r.Hosts)
		if err != nil {
			r.done(err.Error())
			return
		}
		for _, e := range list {
			run := job.Run{Prefix: e.Prefix, Suffix: e.Suffix, Width: uint8(e.Width), Lo: e.Lo, Count: e.Count}
			for i := range int(e.Count) {
				hosts = append(hosts, job.NewNodes(0, []job.Run{run}).At(i).Host)
			}
		}
	}
	c.follow(r, func(ticket uint32) {
		c.events.DaemonsAsked(flow.DaemonsAsked{ID: ticket, PerRank: r.PerRank, Hosts: hosts, Argv: r.Command})
	})
}

// follow calls order with a new ID, to request daemons from the core. It then sends the reports of the daemons to the
// caller until all daemons have ended. If the caller disconnects before, the core kills the daemons, unless they are
// kept.
func (c *controlSide) follow(r caller, order func(ticket uint32)) {
	if !c.stay() {
		return
	}
	defer c.attached.Done()
	ticket, x := c.tickets.Add(1), newExec()
	if r.Verb == "pipe" || r.Verb == "gdb" {
		x.reads, x.room = true, flow.InputCredit
	}
	c.mu.Lock()
	c.execs[ticket] = x
	c.mu.Unlock()
	order(ticket)
	if c.passDaemons(r, ticket, x) {
		return
	}
	c.mu.Lock()
	kept := x.kept
	if !kept {
		delete(c.execs, ticket)
	}
	c.mu.Unlock()
	x.leave()
	if !kept {
		c.events.DaemonsLeft(flow.DaemonsLeft{ID: ticket})
		c.checkTool()
	}
}

// passDaemons sends the caller the output of its daemons, the messages of its session, and at last how the daemons have
// ended. It returns true when the daemons or the job have ended, and false when the caller has disconnected.
func (c *controlSide) passDaemons(r caller, ticket uint32, x *exec) (ended bool) {
	if x.reads {
		begun := control.ToolResponse{Session: &control.Session{ID: ticket}}
		if r.put(control.Response{ToolResponse: begun}) != nil {
			return false
		}
	}
	for last := false; ; {
		queue, over := x.take() // before passSession: once over is set, all messages have arrived
		if c.passSession(ticket, x, r.put) != nil {
			return false
		}
		for _, m := range queue {
			number := m.Number
			if r.PerRank {
				number = uint32(c.job.Load().Layout.Rank(job.Slot(number)))
			}
			output := &control.Output{Rank: number, Stream: m.Stream, Data: m.Data}
			if r.put(control.Response{Output: output}) != nil {
				return false
			}
			c.events.DaemonsTaken(flow.DaemonsTaken{ID: ticket, N: uint32(len(m.Data))})
		}
		switch {
		case over != nil && over.Refused != "":
			r.done(over.Refused)
			return true
		case over != nil:
			_ = r.put(control.Response{Ends: c.ends(over, r.PerRank), Done: true})
			return true
		case last: // the loop has ended without a report of the end of the daemons
			return true
		}
		select {
		case <-x.wake:
		case <-r.gone:
			return false
		case <-c.over:
			last = true // send what the loop has reported before it ended
		}
	}
}

// howEnded describes the status s of a daemon to the user. The status must not be the exit code 0.
func howEnded(s job.Status) string {
	switch s.Kind {
	case job.Exited:
		return "it exited"
	case job.Signaled:
		return "signal " + strconv.Itoa(int(s.Code)) + ", " + syscall.Signal(s.Code).String()
	}
	return "nobody knows"
}

// ends converts the report e of the end of all daemons for their caller. If perRank is true, the caller gets the rank
// beside which each failed daemon ran.
func (c *controlSide) ends(e *flow.DaemonsOver, perRank bool) *control.Ends {
	ends := &control.Ends{Daemons: e.Daemons, Over: e.Over, Lost: e.Lost, Code: int(e.Code), More: e.More,
		Dropped: e.Dropped}
	for f := range e.Failed.All() {
		failed := control.Failed{Number: f.Number, Host: f.Host, Code: f.Status.ExitCode(),
			Cause: cmp.Or(f.Cause, howEnded(f.Status))}
		if perRank {
			rank := uint32(c.job.Load().Layout.Rank(job.Slot(f.Number)))
			failed.Number, failed.Rank = rank, &rank
		}
		ends.Failed = append(ends.Failed, failed)
	}
	return ends
}

func newExec() *exec {
	return &exec{wake: make(chan struct{}, 1), sessionSide: sessionSide{room: rankwire.ToolCredit,
		roomed: make(chan struct{}, 1), left: make(chan struct{})}}
}
