// Package resize measures how long a running job takes to grow by four nodes and to shrink back,
// beside a restart of the whole job on all nodes, turn by turn. It runs on the front of a virtual
// cluster:
//
//	bench resize IBRUN PROGRAM NODES ROUNDS
//
// PROGRAM is examples/resize. It prints what Charm++ has published for the same step beside it, and
// refuses to compare with that: the machine was another.
package resize

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"ibrun/test/bench/figure"
	"ibrun/test/bench/hosts"
)

const (
	by = 4 // nodes
	// What is published of Charm++ for growing and shrinking, in seconds, on another machine.
	charmGrow, charmShrink = 7.2, 2.7
	// patience is how long the job may take to come up.
	patience = 2 * time.Minute
)

// Run is the subcommand.
func Run(args []string) error {
	if len(args) != 4 {
		return errors.New("usage: bench resize IBRUN PROGRAM NODES ROUNDS")
	}
	nodes, err := strconv.Atoi(args[2])
	if err != nil || nodes < by+2 {
		return fmt.Errorf("invalid number of nodes: %q", args[2])
	}
	rounds, err := figure.Rounds(args[3])
	if err != nil {
		return err
	}
	return measure(args[0], args[1], nodes, rounds)
}

func measure(ibrun, program string, nodes, rounds int) error {
	dir, err := os.MkdirTemp("", "ctl") // the path of a socket has 107 bytes at most
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	names := hosts.Names(nodes)
	command := func(args ...string) *exec.Cmd {
		c := exec.Command(ibrun, args...)
		c.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+dir)
		return c
	}
	const heat = "-pause=1ms"
	job := command("--hosts", strings.Join(names[:nodes-by], ","), "-ppn", "1", program, heat, "-every", "1", "-steps",
		"1000000000")
	if err := job.Start(); err != nil {
		return err
	}
	defer func() {
		_ = job.Process.Signal(syscall.SIGTERM)
		_ = job.Wait()
	}()
	ctl := func(words ...string) func() error {
		return func() error {
			return timed(command(append([]string{"ctl", "--job", strconv.Itoa(job.Process.Pid)}, words...)...))
		}
	}
	grow, shrink := ctl("grow", strings.Join(names[nodes-by:], ",")), ctl("shrink", strconv.Itoa(by))
	restart := func() error {
		return timed(command("--hosts", strings.Join(names, ","), "-ppn", "1", program, heat, "-steps", "1"))
	}
	for end := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		if err = grow(); err == nil {
			break
		}
		if time.Now().After(end) {
			return fmt.Errorf("the job has not come up: %w", err)
		}
	}
	if err := errors.Join(shrink(), restart()); err != nil { // the costs of a launch are learned from
		return err
	}
	took := make([][]float64, 3)
	for range rounds {
		for i, f := range []func() error{grow, shrink, restart} {
			d, err := figure.Time(f)
			if err != nil {
				return err
			}
			took[i] = append(took[i], figure.Milliseconds(d))
		}
	}
	fmt.Println(figure.Machine())
	fmt.Printf("a job of %d nodes, medians of %d turns\n", nodes-by, rounds)
	const beside = "  %-6s by %d      %8.1f ms   (Charm++ has published %.1f s)\n"
	fmt.Printf(beside, "grow", by, figure.Median(took[0]), charmGrow)
	fmt.Printf(beside, "shrink", by, figure.Median(took[1]), charmShrink)
	fmt.Printf("  restart on %d    %8.1f ms   (ibrun, from its start to its end, with one step)\n", nodes,
		figure.Median(took[2]))
	return nil
}

// timed runs a command, and says what it said if it fails.
func timed(c *exec.Cmd) error {
	var said bytes.Buffer
	c.Stderr = &said
	if err := c.Run(); err != nil {
		return fmt.Errorf("%w: %s", err, said.Bytes())
	}
	return nil
}
