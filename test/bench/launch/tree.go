package launch

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"ibrun/bootstrap/tree"
	"ibrun/test/bench/figure"
)

// Upper bounds of the makespan of a launch divided by T* (see treeLaunches).
const (
	maxOfOptimum = 1.10
	maxOfWaiting = 1.15 // for latencies with which one parent could start all sessions at once
)

// treeLaunches lists the launches that Tree measures: a number of agents, the latency of each session, and the upper
// bound of the makespan divided by T*. The makespan is the time until all agents are up. T* is the makespan of the
// best possible tree. All agents run on this machine, so the latency grows with their number: otherwise the number of
// CPUs would limit the launch.
var treeLaunches = []struct {
	agents  int
	latency time.Duration
	bound   float64
}{
	{15, 300 * time.Millisecond, maxOfOptimum}, {63, time.Second, maxOfOptimum},
	{127, time.Second, maxOfOptimum}, {255, 2 * time.Second, maxOfOptimum},
	{511, 4 * time.Second, maxOfOptimum},
	{64, time.Second / 2, maxOfWaiting}, {128, time.Second / 2, maxOfWaiting},
	{64, time.Second, maxOfWaiting}, {128, time.Second, maxOfWaiting},
}

// Tree compares launches on this machine with the best possible tree of agents. Its remote shell waits for the
// latency, and then runs the command on this machine. The makespan of the best tree is computed from the costs that
// the same launch has measured.
func Tree(args []string) error {
	var ibrun string
	var rounds int
	if err := figure.Parse(args, &ibrun, &rounds); err != nil {
		return err
	}
	fmt.Println(figure.Machine())
	fmt.Printf("medians of %d launches, after one from which ibrun learns the costs; "+
		"T* is the makespan of the best tree for SEQ, REM and window of the same launch;\n", rounds)
	fmt.Printf("floor is the makespan of the best tree if a session took its latency only, " +
		"and no CPU time\n")
	fmt.Printf("%6s %9s %9s %9s %9s %10s %10s %10s %10s %7s\n",
		"agents", "latency", "SEQ", "REM", "in flight", "all up", "all ready", "T*", "floor", "up / T*")
	bounds := figure.Bounds{To: os.Stdout}
	for _, l := range treeLaunches {
		ratio, err := series(ibrun, rounds, l.agents, l.latency)
		if err != nil {
			return fmt.Errorf("%d agents: %w", l.agents, err)
		}
		bounds.AtMost(fmt.Sprintf("%d agents, %v a session, makespan / T*", l.agents, l.latency), ratio, l.bound)
	}
	return bounds.Err()
}

// series runs one launch to measure the costs of a session, and then rounds launches that ibrun plans with the costs
// measured before. It prints a line, and returns the median of the makespan divided by T* (see treeLaunches).
func series(ibrun string, rounds, agents int, latency time.Duration) (ratio float64, err error) {
	dir, err := os.MkdirTemp("", "bench-tree-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	shell, err := slowShell(dir, latency, `shift; exec sh -c "$*"`) // the first argument is the host
	if err != nil {
		return 0, err
	}
	var list []tree.Summary
	err = figure.Repeat(rounds+1, func() error {
		cmd := exec.Command(ibrun, "--launcher-exec", shell, "--hosts", fmt.Sprintf("n[0001-%04d]", agents),
			"--timing", "--json", "true")
		cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+dir)
		r, err := figure.Run(patience, cmd)
		if err != nil {
			return err
		}
		s, err := parseTiming(r.Said)
		if err == nil && s.Measured == nil {
			err = errors.New("no session was completed")
		}
		list = append(list, s)
		return err
	})
	if err != nil {
		return 0, err
	}
	list = list[1:]
	middle := func(of func(s tree.Summary) float64) float64 {
		var values []float64
		for _, s := range list {
			values = append(values, of(s))
		}
		return figure.Median(values)
	}
	ratio = middle(func(s tree.Summary) float64 { return s.LastUp / optimum(s, agents) })
	floor := tree.Cost{SEQ: time.Microsecond, REM: latency, Window: list[0].Measured.Window}.Optimum(agents + 1)
	fmt.Printf("%6d %9v %6.2f ms %6.0f ms %9d %7.0f ms %7.0f ms %7.0f ms %7d ms %7.2f\n", agents, latency,
		middle(func(s tree.Summary) float64 { return s.Measured.SEQ }),
		middle(func(s tree.Summary) float64 { return s.Measured.REM }),
		list[0].Measured.Window, middle(func(s tree.Summary) float64 { return s.LastUp }),
		middle(func(s tree.Summary) float64 { return s.End }),
		middle(func(s tree.Summary) float64 { return optimum(s, agents) }), floor.Milliseconds(), ratio)
	return ratio, nil
}

// optimum returns the makespan of the best possible tree in milliseconds, for the costs that a launch has measured.
func optimum(s tree.Summary, agents int) float64 {
	of := func(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }
	cost := tree.Cost{SEQ: of(s.Measured.SEQ), REM: of(s.Measured.REM), Window: s.Measured.Window}
	return figure.Milliseconds(cost.Optimum(agents + 1))
}
