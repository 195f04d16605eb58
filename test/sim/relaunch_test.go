package sim

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"ibrun/bootstrap/core"
)

// TestRandomRelaunches: agents, sessions and hosts are lost in jobs that restart ranks and repair
// their tree. All promises of such jobs hold. World.spawn panics if ranks start while an older
// start of them runs. If only agents and sessions are lost, nearly all jobs lose no rank.
func TestRandomRelaunches(t *testing.T) {
	again, kills, whole := 0, 0, 0
	eachSeed(t, scale.relaunches, func(seed uint64, printLine func(string)) (*chaos, []string) {
		c := chaosOf(seed, relaunches, printLine)
		runs := 0
		c.w.At(99*time.Second, func() { runs = c.alive() }) // it is ended at 100 s
		wrong := played(c)
		if len(wrong) > 0 {
			return c, wrong
		}
		again += c.repair.again
		if o := c.w.Outcome; c.repair.others == 0 && o.AllStarted {
			kills++
			if o.Cause == core.CauseNone && o.Code == 0 || o.Cause == core.CauseSignal && runs == c.nodes*c.ranks {
				whole++
			} else {
				t.Logf("-seed %d: %d ranks run; %s: %+v", seed, runs, strings.Join(c.faults, "; "), *o)
			}
		}
		return c, nil
	})
	t.Logf("the ranks of %d nodes started again; of %d jobs that have lost agents only, %d have lost no rank",
		again, kills, whole)
	if scale.relaunches >= 20 && *seed == 0 && (again < scale.relaunches/2 || whole < kills*9/10) {
		t.Error("too few")
	}
}

// alive is how many ranks run.
func (c *chaos) alive() (runs int) {
	for _, a := range c.w.agents {
		runs += len(a.alive)
	}
	return runs
}

// played is what was wrong with a run, also if World found it.
func played(c *chaos) (wrong []string) {
	defer func() {
		if v := recover(); v != nil {
			wrong = append(wrong, fmt.Sprint(v))
		}
	}()
	return c.play()
}
