//go:build soak

package main

import (
	"flag"
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/reaper"
	"ibrun/internal/waitfor"
)

var nodes = flag.Int("nodes", 64, "of which an agent is lost that has a third of them below it")

// printed is a line of a rank, and when it was printed.
var printed = regexp.MustCompile(`rank (\d+) line \d+ \w+ of (\d+)\n`)

// An agent with a third of all nodes below it is killed. All agents below it get a new parent: from then on the
// lines of their ranks come.
func TestLarge(t *testing.T) {
	c, program := mender(t, *nodes)
	lines := 60 + 5**nodes
	j := start(t, c, "--on-agent-loss", "repair", "--tree", "kary:3", "-n", strconv.Itoa(*nodes), "--hosts",
		fmt.Sprintf("node[0001-%04d]", *nodes), program, "-lines", strconv.Itoa(lines))
	j.until(fmt.Sprintf("rank %d line 20 ", *nodes-1))
	j.kill(j.processes("node0001", role(reaper.Agent))...)
	killed := time.Now()
	from := len(j.stdout.String())
	all := func() bool { // each has printed since then: what comes now may have been under way
		fresh := map[string]bool{"0": true}
		for _, line := range printed.FindAllStringSubmatch(j.stdout.String()[from:], -1) {
			if ms, err := strconv.ParseInt(line[2], 10, 64); err == nil && ms > killed.UnixMilli() {
				fresh[line[1]] = true
			}
		}
		return len(fresh) == *nodes
	}
	waitfor.Require(t, "the lines of all ranks below the agent come again", all)
	t.Logf("%d nodes: they came again after %v", *nodes, time.Since(killed).Round(time.Millisecond))
	j.end(*nodes, 1, lines, map[int]bool{0: true})
	require.Equal(t, 125, j.cmd.ProcessState.ExitCode(), j.stderr.String())
	_, why := j.same(*nodes - 1)
	require.Contains(t, why, "rank 0")
}
