package agent

import (
	"fmt"
	"syscall"

	"ibrun/bootstrap/control"
	"ibrun/bootstrap/core"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// answer performs a request from the control socket and sends the responses with put. The channel gone is closed
// when the client disconnects.
func (c *controlSide) answer(request control.Request, put func(control.Response) error, gone <-chan struct{}) {
	r := caller{request, put, gone}
	ranks, err := control.ParseRanks(c.job.Load().Layout, r.Ranks)
	if err != nil {
		r.done(err.Error())
		return
	}
	switch r.Verb {
	case "job":
		_ = put(control.Response{Job: c.about(), Done: true})
	case "attach":
		c.attach(r, ranks)
	case "exec":
		c.exec(r)
	case "pipe", "gdb":
		c.pipe(r, ranks)
	case "input":
		c.input(r)
	case "ccs":
		c.ccs.ask(r)
	case "grow", "shrink":
		c.resize(r)
	case "mpir":
		c.answerDebugger(r)
	case "ready", "session", "send", "keep", "processes", "release":
		c.answerTool(r)
	case "end":
		c.state.Store(2)
		c.events.Interrupted(core.Interrupted{Signal: uint8(syscall.SIGTERM)})
		r.done("")
	case "look", "stacks", "signal":
		c.askRanks(r, ranks)
	default:
		r.done(fmt.Sprintf("unknown request %.40q", r.Verb))
	}
}

// askRanks performs the requests look, stacks and signal. It asks the nodes of the given ranks to report the state or
// the stacks of these ranks, or to send a signal to them.
func (c *controlSide) askRanks(r caller, ranks rankwire.SlotSpans) {
	q := rankwire.Question{What: rankwire.LookAtRanks, PatienceMs: lookPatienceMs, Ranks: ranks,
		Rows: min(r.Rows, rankwire.MaxRows)}
	switch r.Verb {
	case "stacks":
		q.What, q.PatienceMs, q.Rows = rankwire.ShowStacks, stackPatienceMs, 0
	case "signal":
		if r.Signal < 1 || r.Signal > 64 {
			r.done(fmt.Sprintf("there is no signal %d", r.Signal))
			return
		}
		q.What, q.Signal, q.Rows = rankwire.SendSignal, uint8(r.Signal), 0
	}
	if c.state.Load() == 0 {
		r.done(launching)
		return
	}
	if s, ok := c.ask(q, r.gone); ok {
		of := control.StandingOf(c.job.Load().Layout, s)
		_ = r.put(control.Response{Standing: &of, Done: true})
	}
}

// attach sends the output of the ranks in spans, or of all ranks if spans is empty. It returns when the client
// disconnects or the job has ended.
func (c *controlSide) attach(r caller, spans rankwire.SlotSpans) {
	only := map[job.Rank]bool{}
	for s := range spans.All() {
		for slot := s.First; slot < s.End(); slot++ {
			only[c.job.Load().Layout.Rank(slot)] = true
		}
	}
	if !c.stay() {
		return
	}
	defer c.attached.Done()
	wake := make(chan struct{}, 1)
	c.tap.open(wake)
	defer c.tap.close(wake)
	for over := false; !over; {
		select {
		case <-wake:
		case <-r.gone:
			return
		case <-c.final:
			over = true // return after the rest of the output is sent
		}
		batch, lost := c.tap.take(wake)
		for _, w := range batch {
			if len(only) > 0 && !only[w.rank] {
				continue
			}
			output := &control.Output{Rank: uint32(w.rank), Stream: w.stream, Data: w.data}
			if r.put(control.Response{Output: output}) != nil {
				return
			}
		}
		if lost > 0 && r.put(control.Response{Output: &control.Output{Lost: lost}}) != nil {
			return
		}
	}
	r.done("")
}
