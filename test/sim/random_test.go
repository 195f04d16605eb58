package sim

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/core"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

var (
	seed   = flag.Uint64("seed", 0, "the only random run; 0: from 1 on")
	traced = flag.Bool("trace", false, "the whole trace of each run that fails")
	spare  = flag.Int("without", -1, "the fault that is left out, by its number")
)

// chaos is one random run: a job, what its ranks do, and what happens to it.
type chaos struct {
	rng    *rand.Rand
	w      *World
	audit  *audit
	nodes  int
	ranks  int
	text   string   // of the job
	faults []string // by number
	lossy  bool     // an agent was lost while its ranks ran
	asked  int      // interrupts
	killed bool     // the root
	wait   map[job.Slot]int
	repair *repaired // of a job that repairs its tree
}

func (c *chaos) odds(n int) bool { return c.rng.IntN(n) == 0 }

// span is a random time, all orders of magnitude up to most being as likely.
func (c *chaos) span(most time.Duration) time.Duration {
	d := most >> c.rng.IntN(12)
	return time.Duration(c.rng.Int64N(int64(d)))
}

// flavour is what kind of job it is, and of faults.
type flavour int

const (
	anyJob     flavour = iota
	repairing          // it repairs its tree
	relaunches         // and lets the ranks of lost nodes start again
)

func newChaos(seed uint64, printLine func(string)) *chaos { return chaosOf(seed, anyJob, printLine) }

func chaosOf(seed uint64, kind flavour, printLine func(string)) *chaos {
	repairs := kind >= repairing
	c := &chaos{rng: rand.New(rand.NewPCG(seed, 7)), wait: map[job.Slot]int{}}
	c.nodes, c.ranks = 1+c.rng.IntN(24), 1+c.rng.IntN(3)
	if repairs {
		c.nodes += 8
	}
	shape := shapes[c.rng.IntN(len(shapes))]
	cfg := plan(c.nodes, c.ranks, shape)
	cfg.Seed = seed
	cfg.Policy.KillOnBad = !c.odds(4)
	cfg.Job.Launch.KeepGoing = !cfg.Policy.KillOnBad
	more := rand.New(rand.NewPCG(seed, 8)) // so that seeds are the runs that they were
	if cfg.Policy.KillOnBad && more.IntN(2) == 0 {
		cfg.Job.Launch.Restarts, cfg.Policy.MaxRestarts = true, 1+more.IntN(6)
		cfg.Job.Launch.RestartAll = seed%3 == 0
	}
	cfg.Job.Launch.LateBinding = shape == "greedy" && c.odds(2)
	if c.odds(4) {
		cfg.Policy.MinNodes, cfg.Job.Launch.StartBarrier = 1+c.nodes/2, true
	}
	if kind == relaunches { // World knows nodes by their first numbers, and such jobs may drop none
		cfg.Policy.MinNodes, cfg.Job.Launch.StartBarrier = 0, false
		cfg.Policy.KillOnBad, cfg.Job.Launch.KeepGoing = true, false
		cfg.Job.Launch.Restarts, cfg.Job.Launch.RestartAll, cfg.Policy.MaxRestarts = true, false, 1000
	}
	spared := rand.New(rand.NewPCG(seed, 9)).IntN(2) == 0
	if spared && cfg.Job.Launch.Restarts && cfg.Policy.MinNodes == 0 {
		cfg.Policy.Spares, cfg.Job.Launch.StartBarrier = spares(2), true
	}
	cfg.Session, cfg.Turn = c.span(50*time.Millisecond), c.span(5*time.Millisecond)
	cfg.Hop, cfg.Jitter = time.Microsecond, time.Millisecond
	cfg.Start, cfg.Run = c.span(5*time.Millisecond), c.span(4*time.Second)
	forever, failing := c.odds(2), c.odds(3)
	cfg.Silent = func(uint32) bool { return forever }
	cfg.Status = func(rank uint32) job.Status {
		if failing && rank%5 == 0 {
			return job.Status{Code: uint8(1 + rank%3)}
		}
		return job.Status{}
	}
	deaf, never := c.rng.IntN(40), c.rng.IntN(60)
	if repairs && more.IntN(8) > 0 {
		deaf, never = -1, -1 // or most launches fail
	}
	cfg.Takes = func(parent, host string) (time.Duration, bool) {
		switch {
		case host == fmt.Sprintf("node%06d", deaf):
			return 3 * time.Millisecond, false
		case host == fmt.Sprintf("node%06d", never):
			return time.Hour, true
		}
		return cfg.Session + c.span(20*time.Millisecond), true
	}
	if repairs {
		c.repair = newRepaired(&cfg)
		failing = failing && c.odds(4) && kind != relaunches
	}
	cfg.Began = c.began
	cfg.Resumed = func(node uint32, e core.Resume) { c.print(node, e.Rank) }
	cfg.Stepped = func(a *agent, ev core.Event, effects []core.Effect) {
		c.audit.stepped(a, ev, effects)
		c.repair.stepped(c, a, ev, effects)
	}
	c.w = New(cfg)
	c.audit = newAudit(c.w, printLine)
	c.text = fmt.Sprintf("%d nodes, %d ranks each, %s, %+v", c.nodes, c.ranks, shape, cfg.Policy)
	for range 1 + c.rng.IntN(4) {
		if !repairs || more.IntN(4) == 0 {
			c.repair.more(c.draw())
		}
	}
	c.repair.draw(c, more)
	if kind == relaunches && more.IntN(5) == 0 {
		c.repair.rollBack(c, more)
	}
	for range more.IntN(6) {
		if node := uint32(more.IntN(c.nodes)); cfg.Job.Launch.Restarts {
			c.w.At(time.Duration(more.Int64N(int64(4*time.Second))), func() { c.killRank(node) })
		}
	}
	c.w.At(100*time.Second, func() { c.interrupt(15) }) // of what runs for ever
	return c
}

// began lets the ranks of a node say hello, print and join a collective.
func (c *chaos) began(node uint32) {
	a := c.w.agents[node]
	for i := range a.rank.Ranks {
		rank := a.rank.First + job.Slot(i)
		c.wait[rank] = c.rng.IntN(40)
		c.send(a, rank, rankwire.Hello{})
		if !c.odds(3) {
			c.send(a, rank, rankwire.Collect{Op: 1, What: rankwire.Barrier})
		}
		c.print(node, rank)
	}
}

func (c *chaos) send(a *agent, rank job.Slot, m frame.Message) {
	c.w.At(c.w.now+c.span(time.Second), func() {
		if !a.dead && !a.done && a.alive[uint32(rank)] {
			c.w.post(0, a, core.RankFrame{Rank: rank, Msg: m})
		}
	})
}

// print lets a rank print one more chunk, if it has one.
func (c *chaos) print(node uint32, rank job.Slot) {
	if c.wait[rank] == 0 {
		return
	}
	c.wait[rank]--
	a := c.w.agents[node]
	c.w.At(c.w.now+c.span(200*time.Millisecond), func() {
		if !a.dead && !a.done && a.alive[uint32(rank)] {
			c.w.post(0, a, core.RankOutput{Rank: rank, Stream: 1, Data: make([]byte, 1+c.rng.IntN(32<<10))})
		}
	})
}

func (c *chaos) interrupt(signal uint8) {
	c.asked++
	c.w.Interrupt(signal)
}

// runs reports whether a node has ranks that run.
func (c *chaos) runs(node uint32) bool { return c.w.Agent(node) && len(c.w.agents[node].alive) > 0 }

// draw adds a fault, and returns what it is.
func (c *chaos) draw() (name string) {
	at, node := c.span(4*time.Second), uint32(c.rng.IntN(c.nodes))
	lost := func(do func()) func() {
		return func() {
			c.lossy = c.lossy || c.runs(node)
			do()
		}
	}
	kinds := []struct {
		name string
		do   func()
	}{
		{"kill agent", lost(func() { c.w.Kill(node) })},
		{"kill agent", lost(func() { c.w.Kill(node) })},
		{"kill reaper and agent", lost(func() { c.w.KillBoth(node) })},
		{"kill reaper", lost(func() { c.w.KillReaper(node) })},
		{"freeze", c.freeze(node)},
		{"cut for a time", c.cut(node, c.span(30*time.Second))},
		{"cut for ever", c.cut(node, Forever)},
		{"kill a rank", func() { c.killRank(node) }},
		{"interrupt", func() { c.interrupt(2) }},
		{"stop the job", func() { c.w.Stop(c.span(20 * time.Second)) }},
		{"kill the root", func() { c.killed = true; c.w.KillRoot() }},
	}
	k := kinds[c.rng.IntN(len(kinds))]
	c.inject(k.name, node, at, k.do)
	return k.name
}

// inject calls do at the time at, to cause the named fault of a node. It does nothing if the fault is left out.
func (c *chaos) inject(name string, node uint32, at time.Duration, do func()) {
	number := len(c.faults)
	c.faults = append(c.faults, fmt.Sprintf("%d: %s, node %d at %v", number, name, node, at))
	if number != *spare {
		c.w.At(at, do)
	}
}

func (c *chaos) freeze(node uint32) func() {
	d := c.span(90 * time.Second)
	return func() { c.w.Freeze(node, d) }
}

func (c *chaos) cut(node uint32, d time.Duration) func() {
	up, down := !c.odds(4), !c.odds(4)
	return func() { c.w.Cut(node, up, down, d) }
}

func (c *chaos) killRank(node uint32) {
	a := c.w.agents[node]
	if !c.runs(node) {
		return
	}
	rank := a.rank.First + job.Slot(c.rng.IntN(int(a.rank.Ranks)))
	c.w.exit(a, uint32(rank), job.Status{Kind: job.Signaled, Code: 9})
}

// play runs it all and says what was wrong.
func (c *chaos) play() []string {
	const longest = 4 * time.Minute
	err := c.w.Run(longest)
	if err != nil && !c.mayLeave(err) {
		c.audit.wrong = append(c.audit.wrong, err.Error())
	}
	c.audit.ended(c.lossy && !c.killed && !c.replaced())
	c.repair.ended(c)
	return c.audit.wrong
}

// replaced reports whether the ranks of a lost node have started again.
func (c *chaos) replaced() bool {
	return slices.ContainsFunc(c.w.Reports, func(r any) bool {
		again, ok := r.(core.Restarting)
		return ok && again.Fault.What == wire.FaultLost
	})
}

// mayLeave reports whether strays may be left: nobody could look at their node, and the user was
// told, or waited for nothing.
func (c *chaos) mayLeave(err error) bool {
	if !strings.Contains(err.Error(), "strays") {
		return false
	}
	return c.killed || c.asked > 1 || slices.ContainsFunc(c.w.Reports, func(r any) bool {
		n, ok := r.(rankwire.Notice)
		return ok && (strings.Contains(n.Text, "nobody could look") || strings.Contains(n.Text, "no time to look"))
	})
}

// eachSeed plays count random runs, or the one of -seed, and reports what was wrong.
func eachSeed(t *testing.T, count int, play func(seed uint64, printLine func(string)) (c *chaos, wrong []string)) {
	first := uint64(1)
	if *seed > 0 {
		first, count = *seed, 1
	}
	for n := range uint64(count) {
		var lines []string
		var printLine func(string)
		if *traced {
			printLine = func(line string) { lines = append(lines, line) }
		}
		if c, wrong := play(first+n, printLine); len(wrong) > 0 {
			t.Errorf("-seed %d: %s\nfaults: %s\nwrong: %s\ntrace %x\n%s", first+n, c.text, strings.Join(c.faults, "; "),
				strings.Join(wrong[:min(len(wrong), 5)], "\n"), c.audit.trace.Sum64(), strings.Join(lines, "\n"))
		}
	}
}

// TestRandomFaults: whatever happens to a job, it ends, leaves nothing, and accounts for each
// rank once. A failing seed is run again by -seed N -trace.
func TestRandomFaults(t *testing.T) {
	eachSeed(t, scale.faults, func(seed uint64, printLine func(string)) (*chaos, []string) {
		c := newChaos(seed, printLine)
		return c, c.play()
	})
}

// The same seed is the same run, to the last byte: nothing depends on the order of a map.
func TestRandomFaultsRepeat(t *testing.T) {
	for n := range uint64(scale.sample(20)) {
		first, again := newChaos(n, nil), newChaos(n, nil)
		require.Equal(t, first.play(), again.play(), "seed %d", n)
		require.Equal(t, first.audit.trace.Sum64(), again.audit.trace.Sum64(), "seed %d", n)
	}
}
