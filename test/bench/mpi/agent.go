package mpi

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"ibrun/test/bench/figure"
)

const (
	agentRanks = 16
	maxAdded   = 1024            // upper bound of the resident memory in KiB that PMIx clients may add to their agent
	settleTime = 4 * time.Second // how long the memory of an agent is observed, because it shrinks after the start
)

// Agent compares the resident memory of two agents. The ranks of the first agent are PMIx clients (CLIENT,
// test/mpi/testdata/pmixclient.c) that have passed a fence. The ranks of the second agent do not use PMIx.
func Agent(args []string) error {
	var client string
	var rounds int
	if err := figure.Parse(args, &rounds, &client); err != nil {
		return err
	}
	way := func(name string, argv ...string) *figure.Way {
		return &figure.Way{Name: name, Do: func() (float64, error) { return resident(argv...) }}
	}
	with := way("with PMIx", client, "wait")
	without := way("without", "--mpi", "none", "sh", "-c", `echo "rank $RANK: first fence = passed"; exec sleep 600`)
	if err := figure.Measure(0, rounds, with, without); err != nil {
		return err
	}
	fmt.Printf("the agent of %d ranks, resident, median of %d: %.0f KiB with PMIx, %.0f KiB without\n",
		agentRanks, rounds, with.Median(), without.Median())
	bounds := figure.Bounds{To: os.Stdout}
	bounds.AtMost("KiB more resident with PMIx", with.Median()-without.Median(), maxAdded)
	return bounds.Err()
}

// resident runs ibrun with args for a job on one agent, and waits until each rank has printed that it has passed a
// fence. It then reads the resident memory of the agent repeatedly for settleTime, and returns the smallest value in
// KiB.
func resident(args ...string) (kib float64, err error) {
	argv := append([]string{"-n", strconv.Itoa(agentRanks), "--launcher", "local", "--hosts", "a"}, args...)
	cmd := exec.Command(uninstalled, argv...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	defer func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait() // fails, because the job was interrupted
	}()
	passed := 0
	for lines := bufio.NewScanner(out); passed < agentRanks && lines.Scan(); {
		if strings.Contains(lines.Text(), "first fence = passed") {
			passed++
		}
	}
	if passed < agentRanks {
		return 0, fmt.Errorf("%d of %d ranks passed a fence: %s", passed, agentRanks, said.Bytes())
	}
	pid, err := agentBelow(cmd.Process.Pid)
	if err != nil {
		return 0, err
	}
	kib = math.Inf(1)
	for end := time.Now().Add(settleTime); time.Now().Before(end); <-time.After(settleTime / 20) {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			return 0, err
		}
		now := 0.0
		_, rest, _ := bytes.Cut(status, []byte("\nVmRSS:"))
		if _, err := fmt.Sscan(string(rest), &now); err != nil {
			return 0, fmt.Errorf("VmRSS of the agent: %w", err)
		}
		kib = min(kib, now)
	}
	return kib, nil
}

// agentBelow searches the descendants of the process ancestor for an agent, whose arguments include ":agent". It
// returns the process id of the agent, or an error if there is none.
func agentBelow(ancestor int) (int, error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", ancestor))
	if err != nil {
		return 0, err
	}
	for _, file := range files {
		text, _ := os.ReadFile(file) // of a process that may have ended
		for word := range strings.FieldsSeq(string(text)) {
			pid, err := strconv.Atoi(word)
			if err != nil {
				return 0, err
			}
			argv, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			if slices.Contains(strings.Split(string(argv), "\x00"), ":agent") {
				return pid, nil
			}
			if agent, err := agentBelow(pid); err == nil {
				return agent, nil
			}
		}
	}
	return 0, errors.New("no agent found")
}
