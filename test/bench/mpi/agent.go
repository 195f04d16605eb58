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
	// boundAgent is how much more an agent may have in memory with clients of PMIx, in KiB.
	boundAgent = 1024
	// atRest is how long an agent is looked at: it gives back what clients needed at their start.
	atRest = 4 * time.Second
)

// agent compares an agent's memory with clients of PMIx, all of which have met in a fence, and with
// programs that say nothing to it.
func agent(rounds int, client string) error {
	bounds := figure.Bounds{To: os.Stdout}
	for _, of := range []struct{ what, line string }{{"its own", "RssAnon"}, {"resident", "VmRSS"}} {
		var pair figure.Pair
		err := pair.Measure(rounds,
			func() (float64, error) { return resident(of.line, client, "wait") },
			func() (float64, error) {
				return resident(of.line, "--mpi", "none", "sh", "-c",
					`echo "rank $RANK: first fence = passed"; exec sleep 600`)
			})
		if err != nil {
			return err
		}
		with, without, _ := pair.Medians()
		fmt.Printf("the agent of %d ranks, %s, median of %d: %.0f KiB with PMIx, %.0f KiB without\n",
			agentRanks, of.what, rounds, with, without)
		if of.line == "VmRSS" {
			bounds.AtMost("KiB more resident with PMIx", with-without, boundAgent)
		}
	}
	return bounds.Err()
}

// resident is the least of a line of an agent's /proc/PID/status, in KiB, from when each of its
// ranks has printed that it has passed a fence. It ends the job.
func resident(line string, args ...string) (kib float64, err error) {
	n := strconv.Itoa(agentRanks)
	cmd := exec.Command(built, append([]string{"-n", n, "--launcher", "local", "--hosts", "a"}, args...)...)
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
		_ = cmd.Wait() // with the error that it was interrupted
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
	for end := time.Now().Add(atRest); time.Now().Before(end); <-time.After(atRest / 20) {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			return 0, err
		}
		now := 0.0
		_, rest, _ := bytes.Cut(status, []byte("\n"+line+":"))
		if _, err := fmt.Sscan(string(rest), &now); err != nil {
			return 0, fmt.Errorf("%s of the agent: %w", line, err)
		}
		kib = min(kib, now)
	}
	return kib, nil
}

// agentBelow is the process id of the agent that descends from a process.
func agentBelow(ancestor int) (int, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	parents, agents := map[int]int{}, []int{}
	for _, path := range stats {
		text, _ := os.ReadFile(path) // of a process that may have ended
		i := bytes.LastIndexByte(text, ')')
		var state string
		var parent int
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if i < 0 {
			continue
		}
		if _, err := fmt.Sscan(string(text[i+1:]), &state, &parent); err != nil {
			return 0, fmt.Errorf("%s: %w", path, err)
		}
		parents[pid] = parent
		argv, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		if slices.Contains(strings.Split(string(argv), "\x00"), ":agent") {
			agents = append(agents, pid)
		}
	}
	for _, pid := range agents {
		for p := pid; p > 1; p = parents[p] {
			if p == ancestor {
				return pid, nil
			}
		}
	}
	return 0, errors.New("no agent found")
}
