// Package tree holds launches against the best tree that there could be. The remote shell is one of
// its own, which waits a given time before it runs the command here; the costs are those that the
// same launch shows. `make bench-tree` runs it.
//
// It fails if a launch takes more than 1.10 of the optimum (1.15 of some), and refuses to plan
// trees itself.
package tree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"ibrun/bootstrap/timing"
	"ibrun/bootstrap/tree"
	"ibrun/test/bench/figure"
	"ibrun/test/bench/hosts"
)

const (
	mostOfOptimum = 1.10
	mostOfWaiting = 1.15 // where a session takes half a second or one, and a parent could begin all at once
	lagRole       = "lag"
	patience      = 2 * time.Minute
)

// launches are the numbers of agents with the latency of a session. It grows with them, so that two
// cores, on which all agents share, are not what is measured. Bound is of the makespan beside T*.
var launches = []struct {
	agents  int
	latency time.Duration
	bound   float64
}{
	{15, 300 * time.Millisecond, mostOfOptimum}, {63, time.Second, mostOfOptimum},
	{127, time.Second, mostOfOptimum}, {255, 2 * time.Second, mostOfOptimum},
	{511, 4 * time.Second, mostOfOptimum},
	{64, time.Second / 2, mostOfWaiting}, {128, time.Second / 2, mostOfWaiting},
	{64, time.Second, mostOfWaiting}, {128, time.Second, mostOfWaiting},
}

// Run is the subcommand.
func Run(args []string) error {
	switch {
	case len(args) > 3 && args[0] == lagRole: // the remote shell: latency, host, command
		return hosts.Lag(args[1], "/bin/sh", []string{"sh", "-c", strings.Join(args[3:], " ")})
	case len(args) == 2:
		return bench(args[0], args[1])
	}
	return errors.New("usage: bench tree IBRUN ROUNDS")
}

func bench(ibrun, times string) error {
	rounds, err := figure.Rounds(times)
	if err != nil {
		return err
	}
	fmt.Println(figure.Machine())
	fmt.Printf("medians of %d launches after one that is only learned from; "+
		"T* is the makespan of the best tree for SEQ, REM and window of the same launch;\n", rounds)
	fmt.Printf("floor is that of the best tree if a session took its latency and nothing else: " +
		"no processor does that\n")
	fmt.Printf("%6s %9s %9s %9s %9s %10s %10s %10s %10s %7s\n",
		"agents", "latency", "SEQ", "REM", "in flight", "all up", "all ready", "T*", "floor", "up / T*")
	bounds := figure.Bounds{To: os.Stdout}
	for _, l := range launches {
		ratio, err := series(ibrun, rounds, l.agents, l.latency)
		if err != nil {
			return fmt.Errorf("%d agents: %w", l.agents, err)
		}
		bounds.AtMost(fmt.Sprintf("%d agents, %v a session, makespan / T*", l.agents, l.latency), ratio, l.bound)
	}
	return bounds.Err()
}

// measured is one launch.
type measured struct {
	timing.Summary
	optimum float64
}

// series is some launches of one size, planned with what the ones before have cost.
func series(ibrun string, rounds, agents int, latency time.Duration) (ratio float64, err error) {
	cache, err := os.MkdirTemp("", "bench-tree-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(cache)
	var list []measured
	for range rounds + 1 {
		m, err := launch(ibrun, cache, agents, latency)
		if err != nil {
			return 0, err
		}
		list = append(list, m)
	}
	list = list[1:]
	middle := func(of func(m measured) float64) float64 {
		var values []float64
		for _, m := range list {
			values = append(values, of(m))
		}
		return figure.Median(values)
	}
	ratio = middle(func(m measured) float64 { return m.LastUp / m.optimum })
	floor := tree.Cost{SEQ: time.Microsecond, REM: latency, Window: list[0].Measured.Window}.Optimum(agents + 1)
	fmt.Printf("%6d %9v %6.2f ms %6.0f ms %9d %7.0f ms %7.0f ms %7.0f ms %7d ms %7.2f\n", agents, latency,
		middle(func(m measured) float64 { return m.Measured.SEQ }),
		middle(func(m measured) float64 { return m.Measured.REM }),
		list[0].Measured.Window, middle(func(m measured) float64 { return m.LastUp }),
		middle(func(m measured) float64 { return m.End }), middle(func(m measured) float64 { return m.optimum }),
		floor.Milliseconds(), ratio)
	return ratio, nil
}

// launch is one job of `true` on agents of this machine behind the slow shell.
func launch(ibrun, cache string, agents int, latency time.Duration) (m measured, err error) {
	self, err := os.Executable()
	if err != nil {
		return m, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, ibrun, "--launcher-exec", self+" tree "+lagRole+" "+latency.String(),
		"--hosts", fmt.Sprintf("n[0001-%04d]", agents), "--timing", "--json", "true")
	cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+cache)
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil {
		return m, fmt.Errorf("%w: %s", err, said.Bytes())
	}
	if m.Summary, err = hosts.Times(said.Bytes()); err != nil {
		return m, err
	}
	if m.Measured == nil {
		return m, errors.New("no session was completed")
	}
	cost := tree.Cost{SEQ: milliseconds(m.Measured.SEQ), REM: milliseconds(m.Measured.REM),
		Window: m.Measured.Window}
	m.optimum = figure.Milliseconds(cost.Optimum(agents + 1))
	return m, nil
}

func milliseconds(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }
