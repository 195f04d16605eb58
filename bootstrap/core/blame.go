package core

import (
	"slices"
	"time"

	"ibrun/bootstrap/wire"
	"ibrun/job"
)

// blameSettle bounds how long an abort may wait for its name. Ranks abort when
// a peer of theirs has died, and the word of one who notices may reach the root
// before the word of the death. The job's end does not wait: what an agent saw
// before it was told of the end comes on the same links as its Exit, and ahead
// of it, so that most jobs are over before this time is.
const blameSettle = 500 * time.Millisecond

// blame settles what a job failed of. The first failure is the cause, unless it
// is an abort and a death is heard of before people are told.
func (c *Core) blame(f wire.Fault) {
	o := &c.root.out
	if len(o.Faults) < maxFaults {
		o.Faults = append(o.Faults, f)
	}
	switch {
	case c.because(CauseFault, faultCode(f)):
		o.Fault = f
		switch f.What {
		case wire.FaultAbort:
			c.root.blameAt = c.now + blameSettle
			c.wakeAt(c.root.blameAt)
		case wire.FaultLaunch: // all that failed are told of in one table
		default:
			c.do(Report{f})
		}
	case c.root.blameAt > 0 && isDeath(f, o.Fault.Rank):
		o.Fault, o.Code = f, faultCode(f)
		if i := len(o.Faults) - 1; o.Faults[i] == f {
			o.Faults = slices.Insert(o.Faults[:i], 0, f)
		}
		c.tellBlame()
	}
}

// tellBlame names the cause to people; it stands from now on.
func (c *Core) tellBlame() {
	if c.root.blameAt > 0 {
		c.root.blameAt = 0
		c.do(Report{c.root.out.Fault})
	}
}

// isDeath reports whether a failure is one that made a rank abort, rather than
// one that followed: ranks that exit with a code may do so because of the abort,
// and the rank that aborts may end itself by a signal.
func isDeath(f wire.Fault, aborted uint32) bool {
	return f.What == wire.FaultLost || f.What == wire.FaultRank && f.Status.Kind == job.Signaled && f.Rank != aborted
}
