package agent

import (
	"fmt"
	"time"

	"ibrun/bootstrap/control"
)

// Debugger connects the root to debuggers that find the ranks of a job by the MPIR interface
// (docs/dev/decisions/0035-tools.md). Its functions may be called from any goroutine.
type Debugger struct {
	// Starts means that a debugger has started the job. The debugger gets the ranks as soon as all run. Ranks that
	// wait for it before they run their programs are released when Give returns.
	Starts bool
	// Wants reports whether a debugger has attached and requests the ranks.
	Wants func() bool
	// Give passes all ranks to the debugger. It returns when the debugger lets this process continue. Calls do not
	// overlap.
	Give func(ranks []control.Process) error
}

// debuggerEvery is the interval at which the root checks whether a debugger has attached. A debugger that attaches
// only sets a variable of this process, so the root must poll.
const debuggerEvery = time.Second

// awaitDebuggers passes the ranks to each debugger that attaches, until the job ends. All ranks must run before the
// call.
func (c *controlSide) awaitDebuggers(d *Debugger) {
	was := d.Starts
	if d.Starts {
		c.giveRanks(c.over)
		c.release()
	}
	look := time.NewTicker(debuggerEvery)
	defer look.Stop()
	for {
		select {
		case <-look.C:
		case <-c.over:
			return
		}
		wants := d.Wants()
		if wants && !was {
			c.giveRanks(c.over)
		}
		was = wants
	}
}

// giveRanks passes the processes of all running ranks to the debugger.
func (c *controlSide) giveRanks(gone <-chan struct{}) error {
	c.tool.giving.Lock()
	defer c.tool.giving.Unlock()
	err := c.tool.debugger.Give(c.processes(gone))
	if err != nil {
		c.events.Warn(fmt.Sprintf("the debugger is not told of ranks: %v", err))
	}
	return err
}

// answerDebugger performs the request mpir of a client that is about to attach a debugger to this process: it stores
// the processes of the ranks where the debugger finds them.
func (c *controlSide) answerDebugger(r caller) {
	switch {
	case c.tool.debugger == nil:
		r.done("debuggers find no ranks in this build of ibrun, which has no MPIR symbols")
	case c.state.Load() == 0:
		r.done(launching)
	default:
		if err := c.giveRanks(r.gone); err != nil {
			r.done(err.Error())
		} else {
			_ = r.put(control.Response{Job: c.about(), Done: true})
		}
	}
}
