// Package message compares messages of package ibrun with plain UDP and TCP of package net, in the same processes and
// in turns, between the nodes of a virtual cluster and on one machine. It also compares lazy with eager jobs, and
// InfiniBand with ibv_rc_pingpong. Package mpi runs the roles stencil3d, alltoall, curve and tcp of this package
// beside C programs that send the same messages. The script test/bench/run starts the cluster.
package message

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"ibrun"
	"ibrun/test/bench/figure"
)

// patience limits one job.
const patience = 5 * time.Minute

// role is a function that each rank of a job runs, to measure messages between the ranks. numbers are its arguments.
// In rank 0 it returns the results, unless it has printed them.
type role func(ctx context.Context, w *ibrun.World, numbers []int) ([]row, error)

var roles = map[string]role{
	"trips": trips(map[int]string{64: "round trip of 64 B", 1 << 10: "round trip of 1 KiB"}), "streams": streams,
	"first": first, "crowd": crowd, rolePlain: allToAll, roleBundled: allToAll, "here": here,
	"stencil3d": stencil, "alltoall": exchangeAll, "curve": curve, "tcp": curveOverTCP,
}

// Rank runs one rank of a job, as a process of its own. ROLE is a key of roles, and NUMBER... are arguments of the
// role. Rank 0 prints the rows that its role returns as JSON.
func Rank(args []string) error {
	var name string
	var words []string
	if err := figure.Parse(args, &name, &words); err != nil {
		return err
	}
	numbers := make([]int, len(words))
	for i, word := range words {
		if err := figure.Parse([]string{word}, &numbers[i]); err != nil {
			return err
		}
	}
	act, known := roles[name]
	if !known {
		return fmt.Errorf("no such role: %q", name)
	}
	var options []ibrun.Option
	if name == roleBundled {
		options = []ibrun.Option{ibrun.WithAggregation(bundleWait)}
	}
	ctx := context.Background()
	w, err := ibrun.Init(ctx, options...)
	if err != nil {
		return err
	}
	rows, err := act(ctx, w, numbers)
	if err != nil {
		return fmt.Errorf("rank %d: %w", w.Rank(), err)
	}
	if w.Rank() == 0 && rows != nil {
		if err := json.NewEncoder(os.Stdout).Encode(rows); err != nil {
			return err
		}
	}
	return w.Finalize(ctx)
}

// run runs a job whose ranks have the given role, and returns the rows of rank 0. number is the argument of the role,
// and options are options of ibrun. The job is lazy, because the role first measures the look-up of a peer, which
// eager jobs do not need.
func run(launcher, role string, number int, options ...string) (rows []row, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	argv := append(options, "--lazy", "--", self, ":rank", role, strconv.Itoa(number))
	r, err := figure.Run(patience, exec.Command(launcher, argv...))
	if err == nil {
		err = json.NewDecoder(bytes.NewReader(r.Out)).Decode(&rows)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %q", role, err, r.Out)
	}
	return rows, nil
}

const (
	// firsts is the number of peers that rank 0 sends a first message to.
	firsts = 7
	// jobsOfFirst is the number of jobs per round that measure the time of first messages. On a busy machine
	// the ratio of one job has a standard deviation of 0.15. The median of 20 jobs has a standard deviation of
	// 0.04.
	jobsOfFirst = 4
	// senders is the number of ranks that send to rank 0 at the same time, seven on each node.
	senders = 63
)

// Data measures messages between the nodes of a virtual cluster of 10 nodes. It prints a table of times, ratios and
// bounds, and writes the table to the document PAGE. It returns an error if a bound is missed.
func Data(args []string) error {
	var launcher, page string
	var rounds int
	if err := figure.Parse(args, &launcher, &rounds, &page); err != nil {
		return err
	}
	job := func(role string, number int, nodes ...string) func() ([]row, error) {
		return func() ([]row, error) { return run(launcher, role, number, "--hosts", strings.Join(nodes, ",")) }
	}
	names := figure.Names(10)
	var rows []row
	for _, part := range []struct {
		jobs int
		run  func() ([]row, error)
	}{
		{1, job("trips", rounds, names[:2]...)}, {1, job("streams", rounds, names[:2]...)},
		{jobsOfFirst * rounds, job("first", rounds, names[:1+firsts]...)}, // a job sends each peer one first message only
		{1, job("crowd", rounds, append([]string{names[0]}, each(7, names[1:])...)...)},
	} {
		var times [][]row
		if err := figure.Repeat(part.jobs, func() error {
			found, err := part.run()
			times = append(times, found)
			return err
		}); err != nil {
			return err
		}
		rows = append(rows, medians(times)...)
	}
	all := func(role string) *figure.Way {
		run := job(role, 1, each(8, names[:8])...)
		return &figure.Way{Name: role, Do: func() (float64, error) {
			rows, err := run()
			if err != nil {
				return 0, err
			}
			return rows[0].Ours, nil
		}}
	}
	bundled, single := all(roleBundled), all(rolePlain)
	if err := figure.Measure(0, rounds, bundled, single); err != nil {
		return err
	}
	rows = append(rows, atMost("100 messages of 64 B from each of 64 ranks to each, aggregated, beside without", "ms",
		pair{ours: bundled.Values, theirs: single.Values}, 0.5))
	table := tableOf(rows, rounds)
	fmt.Print(table)
	return errors.Join(judge(rows, os.Stdout),
		figure.Keep(page, "make bench-data", func(string) string { return table }))
}

// each returns the entries of a host list for nodes with the same number of ranks, such as node0001:8.
func each(ranks int, nodes []string) (list []string) {
	for _, name := range nodes {
		list = append(list, fmt.Sprintf("%s:%d", name, ranks))
	}
	return list
}

// Here measures messages between two ranks on one machine, and returns an error if a bound is missed.
func Here(args []string) error {
	var launcher string
	var rounds int
	if err := figure.Parse(args, &launcher, &rounds); err != nil {
		return err
	}
	rows, err := run(launcher, "here", rounds, "--launcher", "local", "--iface", "lo", "-n", "2", "--hosts", "n1,n2")
	if err != nil {
		return err
	}
	fmt.Print(tableOf(rows, rounds))
	return judge(rows, os.Stdout)
}
