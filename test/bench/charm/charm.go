// Package charm measures how long ibrun takes to start and end a program of Charm++'s layer
// netlrts, beside charmrun over the same ssh, turn by turn. It runs on the front of a virtual
// cluster:
//
//	bench charm IBRUN CHARMRUN PROGRAM NODES PROCESSES ROUNDS
//
// charmrun takes turns in several ways: as it is, and with the options that may help it. The bound
// is held against the fastest of them. A launch by charmrun that hangs is left out, and counted.
// PROGRAM must end by itself, without output.
package charm

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"ibrun/test/bench/figure"
	"ibrun/test/bench/hosts"
)

// mostOfCharmrun bounds what ibrun takes of the time of charmrun.
const mostOfCharmrun = 0.5

// patience is how long a launch may take.
const patience = 30 * time.Second

// way is how the program is started.
type way struct {
	name    string
	argv    []string
	seconds []float64 // of launches that did well
	failed  int
}

// Run is the subcommand.
func Run(args []string) error {
	if len(args) != 6 {
		return errors.New("usage: bench charm IBRUN CHARMRUN PROGRAM NODES PROCESSES ROUNDS")
	}
	nodes, err := strconv.Atoi(args[3])
	if err != nil || nodes < 1 {
		return fmt.Errorf("invalid number of nodes: %q", args[3])
	}
	processes, err := strconv.Atoi(args[4])
	if err != nil || processes < nodes || processes%nodes != 0 {
		return fmt.Errorf("invalid number of processes: %q; as many on each node are wanted", args[4])
	}
	rounds, err := figure.Rounds(args[5])
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "charm")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ways, err := waysOf(dir, args[0], args[1], args[2], nodes, processes)
	if err != nil {
		return err
	}
	return compare(ways, nodes, processes, rounds)
}

// waysOf are ibrun's way, and then those of charmrun.
func waysOf(dir, ibrun, charmrun, program string, nodes, processes int) ([]*way, error) {
	names := hosts.Names(nodes)
	file := filepath.Join(dir, "nodelist")
	list := "group main ++shell ssh\n"
	for _, name := range names {
		list += "host " + name + "\n"
	}
	if err := os.WriteFile(file, []byte(list), 0o644); err != nil {
		return nil, err
	}
	each := strconv.Itoa(processes / nodes)
	theirs := func(name string, options ...string) *way {
		argv := append([]string{charmrun, "++n", strconv.Itoa(processes), "++nodelist", file}, options...)
		return &way{name: name, argv: append(argv, program)}
	}
	return []*way{
		{name: "ibrun", argv: []string{ibrun, "--mpi", "charm", "--hosts", strings.Join(names, ","), "-ppn", each,
			program}},
		theirs("charmrun"),
		theirs("charmrun ++batch "+strconv.Itoa(nodes), "++batch", strconv.Itoa(nodes)),
		theirs("charmrun ++numHosts "+strconv.Itoa(nodes), "++numHosts", strconv.Itoa(nodes)),
	}, nil
}

func compare(ways []*way, nodes, processes, rounds int) error {
	var turns []func() error
	for _, w := range ways {
		_ = w.run() // costs are learned from, and binaries arrive
		turns = append(turns, func() error {
			took, err := figure.Time(w.run)
			switch {
			case err == nil:
				w.seconds = append(w.seconds, took.Seconds())
			case w == ways[0] || !errors.Is(err, errHangs):
				return err
			default:
				w.failed++
			}
			return nil
		})
	}
	if err := figure.Turns(rounds, turns...); err != nil {
		return err
	}
	fmt.Println(figure.Machine())
	fmt.Printf("%d processes on %d nodes over ssh, from the command to its end, medians of %d turns\n", processes,
		nodes, rounds)
	ours, best := figure.Median(ways[0].seconds), 0.0
	for i, w := range ways {
		if len(w.seconds) == 0 {
			return fmt.Errorf("%s: %w each time", w.name, errHangs)
		}
		median := figure.Median(w.seconds)
		fmt.Printf("  %-24s %7.3f s", w.name, median)
		if w.failed > 0 {
			fmt.Printf(" (%d of %d hung and are left out)", w.failed, rounds)
		}
		fmt.Println()
		if i == 1 || i > 1 && median < best {
			best = median
		}
	}
	bounds := figure.Bounds{To: os.Stdout}
	what := fmt.Sprintf("netlrts, %d processes on %d nodes over ssh: ibrun / charmrun's fastest way", processes, nodes)
	bounds.AtMost(what, ours/best, mostOfCharmrun)
	return bounds.Err()
}

// errHangs is of a launch that takes longer than patience.
var errHangs = errors.New("the launch hangs")

// run starts the program once. An error has what was printed.
func (w *way) run() error {
	c := exec.Command(w.argv[0], w.argv[1:]...)
	var printed bytes.Buffer
	c.Stdout, c.Stderr = &printed, &printed
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.Start(); err != nil {
		return err
	}
	late := time.AfterFunc(patience, func() { _ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) })
	err := c.Wait()
	if !late.Stop() {
		return fmt.Errorf("%s: %w: %s", w.name, errHangs, printed.Bytes())
	}
	if err != nil {
		return fmt.Errorf("%s: %w: %s", w.name, err, printed.Bytes())
	}
	return nil
}
