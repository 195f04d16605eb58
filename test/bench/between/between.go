// Package between holds messages between the nodes of a virtual cluster, through package ibrun,
// against plain UDP and TCP of package net over the same link, in the same processes and in turns.
// It runs on the front of a virtual cluster of 10 nodes:
//
//	bench data IBRUN ROUNDS FIGURES
//
// It prints a table of ratios and bounds, puts it into the file FIGURES too, and fails if a bound
// is missed. It refuses to measure the memory of peers, for which there is a Go benchmark.
package between

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"ibrun"
	"ibrun/test/bench/figure"
	"ibrun/test/bench/hosts"
)

// part is one job of the benchmark.
type part struct {
	name  string // its role, with roleMark before it
	nodes string // host list with ranks
	ranks int
	run   func(ctx context.Context, w *ibrun.World, rounds int) ([]row, error)
}

// roleMark tells a role of a rank from the path of ibrun.
const roleMark = ":"

// partFirst is the part of first messages.
const partFirst = "first"

// firsts is the number of peers that rank 0 sends a first message to.
const firsts = 7

// jobsOfFirst is how many jobs measure first messages in a round: the ratio of one job has a
// standard deviation of 0.15 on a busy machine, and the median of 20 jobs one of 0.04.
const jobsOfFirst = 4

// senders is the number of ranks that send to rank 0 at the same time, on nodes of seven.
const senders = 63

var parts = []part{
	{"trips", list(2), 2, trips},
	{"streams", list(2), 2, streams},
	{partFirst, list(1 + firsts), 1 + firsts, first},
	{"many", "node0001:1," + crowd(2, senders/7, 7), 1 + senders, many},
	{rolePlain, crowd(1, 8, 8), 64, allToAll},
	{roleBundled, crowd(1, 8, 8), 64, allToAll},
}

func list(nodes int) string { return strings.Join(hosts.Names(nodes), ",") }

// crowd lists nodes from the given one on, each with so many ranks.
func crowd(from, nodes, ranks int) string {
	var names []string
	for _, name := range hosts.Names(from - 1 + nodes)[from-1:] {
		names = append(names, fmt.Sprintf("%s:%d", name, ranks))
	}
	return strings.Join(names, ",")
}

// Run is the subcommand.
func Run(args []string) error {
	if len(args) != 3 {
		return errors.New("usage: bench data IBRUN ROUNDS FIGURES")
	}
	rounds, err := figure.Rounds(args[1])
	if err != nil {
		return err
	}
	if role, is := strings.CutPrefix(args[0], roleMark); is {
		return act(role, rounds)
	}
	return drive(args[0], rounds, args[2])
}

// act is one rank of a part. Rank 0 prints the rows.
func act(role string, rounds int) error {
	ctx := context.Background()
	w, err := ibrun.Init(ctx, options(role)...)
	if err != nil {
		return err
	}
	for _, p := range parts {
		if p.name != role {
			continue
		}
		rows, err := p.run(ctx, w, rounds)
		if err != nil {
			return fmt.Errorf("%s, rank %d: %w", role, w.Rank(), err)
		}
		if w.Rank() == 0 {
			if err := json.NewEncoder(os.Stdout).Encode(rows); err != nil {
				return err
			}
		}
		return w.Finalize(ctx)
	}
	return fmt.Errorf("no such role: %q", role)
}

// drive runs the parts, and judges what they say.
func drive(launcher string, rounds int, figures string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	run := func(role string) ([]row, error) {
		p := parts[slices.IndexFunc(parts, func(p part) bool { return p.name == role })]
		// Eager would take the look-up out of the first message.
		c := exec.Command(launcher, "--hosts", p.nodes, "-n", strconv.Itoa(p.ranks), "--timeout", "300", "--lazy", "--",
			self, "data", roleMark+p.name, strconv.Itoa(rounds), figures)
		c.Stderr = os.Stderr
		out, err := c.Output()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		var rows []row
		if err := json.NewDecoder(bytes.NewReader(out)).Decode(&rows); err != nil {
			return nil, fmt.Errorf("%s: unexpected output %q: %w", p.name, out, err)
		}
		return rows, nil
	}
	var rows []row
	for _, p := range parts {
		if p.name == rolePlain || p.name == roleBundled {
			continue
		}
		jobs := 1
		if p.name == partFirst { // what is first can be measured once in a job
			jobs = jobsOfFirst * rounds
		}
		var some [][]row
		for range jobs {
			found, err := run(p.name)
			if err != nil {
				return err
			}
			some = append(some, found)
		}
		rows = append(rows, middle(some)...)
	}
	shared, err := aggregated(run, rounds)
	if err != nil {
		return err
	}
	rows = append(rows, shared)
	table := tableOf(rows, rounds)
	fmt.Print(table)
	return errors.Join(judge(rows, os.Stdout), figure.Keep(figures, "make bench-data", table))
}
