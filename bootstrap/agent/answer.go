package agent

import (
	"fmt"
	"syscall"

	"ibrun/bootstrap/control"
	"ibrun/bootstrap/core"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// answer performs the request r from the control socket and sends the responses with put. The channel gone is closed
// when the client disconnects.
func (c *controlSide) answer(r control.Request, put func(control.Response) error, gone <-chan struct{}) {
	refuse := func(format string, args ...any) {
		_ = put(control.Response{Error: fmt.Sprintf(format, args...), Done: true})
	}
	ranks, err := control.ParseRanks(c.job.Load().Layout, r.Ranks)
	if err != nil {
		refuse("%v", err)
		return
	}
	q := rankwire.Question{What: rankwire.LookAtRanks, PatienceMs: lookPatienceMs, Ranks: ranks,
		Rows: min(r.Rows, rankwire.MaxRows)}
	switch r.Verb {
	case "job":
		_ = put(control.Response{Job: c.about(), Done: true})
		return
	case "attach":
		c.attach(r, put, gone)
		return
	case "exec":
		c.exec(r, put, gone)
		return
	case "pipe", "gdb":
		c.pipe(r, ranks, put, gone)
		return
	case "input":
		c.input(r, put, gone)
		return
	case "ccs":
		c.loop.root.ccs.ask(r, put, gone)
		return
	case "grow", "shrink":
		c.resize(r, put, gone)
		return
	case "mpir":
		c.answerDebugger(put, gone)
		return
	case "ready", "session", "send", "keep", "processes", "release":
		c.answerTool(r, put, gone)
		return
	case "end":
		c.state.Store(2)
		c.loop.post(core.Interrupted{Signal: uint8(syscall.SIGTERM)})
		_ = put(control.Response{Done: true})
		return
	case "look":
	case "stacks":
		q.What, q.PatienceMs, q.Rows = rankwire.ShowStacks, stackPatienceMs, 0
	case "signal":
		if r.Signal < 1 || r.Signal > 64 {
			refuse("there is no signal %d", r.Signal)
			return
		}
		q.What, q.Signal, q.Rows = rankwire.SendSignal, uint8(r.Signal), 0
	default:
		refuse("unknown request %.40q", r.Verb)
		return
	}
	if c.state.Load() == 0 {
		refuse("the job is being launched: ask again when its ranks run")
		return
	}
	s, ok := c.ask(q, gone)
	if !ok {
		return
	}
	of := control.StandingOf(c.job.Load().Layout, s)
	_ = put(control.Response{Standing: &of, Done: true})
}

// attach sends the output of the ranks in r.Ranks, or of all ranks if r.Ranks is empty. It returns when the client
// disconnects or the job has ended.
func (c *controlSide) attach(r control.Request, put func(control.Response) error, gone <-chan struct{}) {
	only := map[job.Rank]bool{}
	spans, _ := control.ParseRanks(c.job.Load().Layout, r.Ranks)
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
		case <-gone:
			return
		case <-c.final:
			over = true // send the rest of the output, then return
		}
		batch, lost := c.tap.take(wake)
		for _, w := range batch {
			if len(only) > 0 && !only[w.rank] {
				continue
			}
			output := &control.Output{Rank: uint32(w.rank), Stream: w.stream, Data: w.data}
			if put(control.Response{Output: output}) != nil {
				return
			}
		}
		if lost > 0 && put(control.Response{Output: &control.Output{Lost: lost}}) != nil {
			return
		}
	}
	_ = put(control.Response{Done: true})
}
