package core

import (
	"slices"
	"time"

	"ibrun/bootstrap/wire"
	"ibrun/internal/job"
)

// blameSettle bounds how long a failure that may follow from another waits for its
// explanation. Ranks abort, exit or crash when a peer of theirs has died, and the
// word of one who notices may reach the root before the word of the death. The job's
// end does not wait: what an agent saw before it was told of the end comes on the
// same links as its Exit, and ahead of it, and a lost agent's link ends before the root is
// done, so that most jobs are over before this time is.
const blameSettle = time.Second

// What a failure explains, and whether something else may explain it.
type weight uint8

const (
	// apart: a session that failed has ended nobody, and needs no explanation.
	apart weight = iota
	// consequence: an exit code, an abort, an end by SIGPIPE, a spawned job that failed.
	consequence
	// leaving: a rank that its peers wait for has exited, and has not aborted. Peers see its
	// connections end, and abort.
	leaving
	// crash: an end by any other signal explains all of those. Peers of a dead rank may crash, too.
	crash
	// fatal: an agent was lost, somebody killed a rank, a program could not be
	// started. None of it happens to a rank because of what others do.
	fatal
)

func weightOf(f wire.Fault) weight {
	switch f.What {
	case wire.FaultLost, wire.FaultTold, wire.FaultFork:
		return fatal
	case wire.FaultLaunch, wire.FaultFallback:
		return apart
	case wire.FaultRank:
		switch s := f.Status; {
		case s.Kind == job.Exited && f.Awaited:
			return leaving
		case s.Kind != job.Signaled || s.Code == sigPipe:
			return consequence
		case s.Code == sigKill:
			return fatal
		}
		return crash
	}
	return consequence
}

// blame settles what a job failed of. The first failure is the cause, unless
// one that explains it, by its weight, is heard of before the user is told.
func (c *Core) blame(f wire.Fault, w weight) {
	r, o := &c.root, &c.root.out
	if len(o.Faults) < maxFaults {
		o.Faults = append(o.Faults, f)
	}
	switch {
	case c.because(CauseFault, faultCode(f)):
		o.Fault, r.cause = f, w
		switch w {
		case apart: // all that failed are told of in one table
		case fatal:
			c.do(Report{f})
		default:
			c.awaitBlame()
		}
	case r.blameAt > 0 && w > r.cause && (o.Cause != CauseFault || f.What == wire.FaultLost || f.Rank != o.Fault.Rank):
		o.Cause, o.Fault, o.Code, r.cause = CauseFault, f, faultCode(f), w
		if i := len(o.Faults) - 1; o.Faults[i] == f {
			o.Faults = slices.Insert(o.Faults[:i], 0, f)
		}
		if w == fatal {
			c.reportBlame()
		}
	}
}

// awaitBlame lets the cause wait for what explains it.
func (c *Core) awaitBlame() {
	c.root.blameAt = c.now + blameSettle
	c.wakeAt(c.root.blameAt)
}

// reportBlame names the cause to the user; it stands from now on. A spawned job has
// told of its own failure.
func (c *Core) reportBlame() {
	if c.root.blameAt > 0 {
		c.root.blameAt = 0
		if c.root.out.Cause == CauseFault {
			c.do(Report{c.root.out.Fault})
		}
	}
}
