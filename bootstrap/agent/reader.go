package agent

import (
	"ibrun/bootstrap/core/flow"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// For each client that runs pipe or gdb, one daemon runs beside one rank. The client sends its input to the daemon by
// the request input (docs/dev/decisions/0026-gdb-pipe-overview.md).

// pipe starts a daemon, and sends its output to the caller until the daemon has ended.
func (c *controlSide) pipe(r caller, ranks rankwire.SlotSpans) {
	order := flow.DaemonsAsked{PerRank: true, Argv: r.Command, Input: wire.ReadsPipe}
	if r.Verb == "gdb" {
		order.Input = wire.DebugsByPipe
		if r.Window != nil {
			order.Input, order.Window = wire.DebugsByTerminal, job.Window(*r.Window)
		}
	}
	count := uint32(0)
	for s := range ranks.All() {
		order.OfRank, count = s.First, count+s.Count
	}
	switch {
	case len(r.Command) == 0 || r.Command[0] == "":
		r.done(r.Verb + " needs a command")
		return
	case count != 1:
		r.done(r.Verb + " needs one rank")
		return
	}
	r.PerRank = true
	c.follow(r, func(ticket uint32) {
		order.ID = ticket
		c.events.DaemonsAsked(order)
	})
}

// input passes input from a caller to its daemon. It blocks until the job has room for the input.
func (c *controlSide) input(r caller) {
	in := wire.Stdin{Data: r.Data, EOF: r.Last}
	if r.Window != nil {
		in.Window = job.Window(*r.Window)
	}
	c.mu.Lock()
	x := c.execs[r.Session]
	c.mu.Unlock()
	why := ""
	switch {
	case x == nil:
		why = noSession
	case !x.reads:
		why = "it reads nothing"
	case len(in.Data) > wire.MaxData || len(in.Data) == 0 && !in.EOF && in.Window == job.Window{}:
		why = "input has 1 to 32768 bytes, or it is the last"
	default:
		why = c.sendWhenRoom(x, uint32(len(in.Data)), r.gone, func() {
			c.events.DaemonFed(flow.DaemonFed{ID: r.Session, Stdin: in})
		})
	}
	r.done(why)
}
