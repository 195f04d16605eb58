// Package exec holds `ibrun ctl exec true` on a job that runs against a launch of its own:
// `ibrun true` on the same nodes, turn by turn. It runs on the front of a virtual cluster:
//
//	bench exec IBRUN NODES ROUNDS
//
// It fails if exec takes more than a given share of the launch, and refuses to measure what daemons
// do.
package exec

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

// mostOfLaunch bounds what exec takes of the time of a launch.
const mostOfLaunch = 0.15

// patience is how long the job may take to come up.
const patience = 2 * time.Minute

// Run is the subcommand.
func Run(args []string) error {
	if len(args) != 3 {
		return errors.New("usage: bench exec IBRUN NODES ROUNDS")
	}
	nodes, err := strconv.Atoi(args[1])
	if err != nil || nodes < 1 {
		return fmt.Errorf("invalid number of nodes: %q", args[1])
	}
	rounds, err := figure.Rounds(args[2])
	if err != nil {
		return err
	}
	return compare(args[0], nodes, rounds)
}

func compare(ibrun string, nodes, rounds int) error {
	dir, err := os.MkdirTemp("", "ctl") // the path of a socket has 107 bytes at most
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	env := append(os.Environ(), "XDG_RUNTIME_DIR="+dir)
	list := strings.Join(hosts.Names(nodes), ",")
	command := func(args ...string) *exec.Cmd {
		c := exec.Command(ibrun, args...)
		c.Env = env
		return c
	}
	job := command("--hosts", list, "sleep", "3600")
	if err := job.Start(); err != nil {
		return err
	}
	defer func() {
		_ = job.Process.Signal(syscall.SIGTERM)
		_ = job.Wait()
	}()
	of := []string{"ctl", "exec", "--job", strconv.Itoa(job.Process.Pid), "--", "true"}
	for end := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		if err = timed(command(of...)); err == nil {
			break
		}
		if time.Now().After(end) {
			return fmt.Errorf("the job has not come up: %w", err)
		}
	}
	measure := func(args ...string) func() (float64, error) {
		return func() (float64, error) {
			took, err := figure.Time(func() error { return timed(command(args...)) })
			return figure.Milliseconds(took), err
		}
	}
	launch := measure("--hosts", list, "true")
	if _, err := launch(); err != nil { // its costs are learned from
		return err
	}
	var pair figure.Pair
	if err := pair.Measure(rounds, measure(of...), launch); err != nil {
		return err
	}
	ours, theirs, ratio := pair.Medians()
	fmt.Println(figure.Machine())
	fmt.Printf("%d nodes, medians of %d turns: ctl exec %.1f ms, a launch %.1f ms\n", nodes, rounds, ours, theirs)
	bounds := figure.Bounds{To: os.Stdout}
	bounds.AtMost(fmt.Sprintf("%d nodes, ctl exec / launch", nodes), ratio, mostOfLaunch)
	return bounds.Err()
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
