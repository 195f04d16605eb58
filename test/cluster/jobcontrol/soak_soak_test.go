//go:build soak

package jobcontrol

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/reaper"
	"ibrun/test/vcluster/cluster"
)

// soak is how long the job of TestSoak runs, stops included.
var soak = flag.Duration("soak", 10*time.Minute, "of the job that much befalls")

const (
	soakNodes = 4
	// agentStopped is less than the 60 s after which an agent that says nothing is given up.
	agentStopped = 50 * time.Second
	// soakScript counts the seconds until there is a file. Rank 3's node sends enough for
	// a key exchange every ten seconds, besides those by time.
	soakWidth  = 1000
	soakScript = `i=0; while [ ! -e %s ]; do echo $RANK $i; [ $RANK != 3 ] || head -c 100000 /dev/zero | tr "\0" x | ` +
		`fold -w %d; ` +
		`[ $RANK != 3 ] || echo; i=$((i+1)); sleep 1; done; echo $RANK done $i`
)

func TestManyStoppedForLong(t *testing.T) {
	t.Parallel()
	stopForLong(t, 20)
}

// A job outlives what befalls a long one: keys that both sides exchange again every ten
// seconds and every megabyte, keepalives, Ctrl-Z for 75 s, and an agent that is stopped for 50 s.
// Nothing that a rank prints is lost.
func TestSoak(t *testing.T) {
	t.Parallel()
	c := cluster.Require(t, cluster.Config{Nodes: soakNodes, SSHD: []string{"RekeyLimit 1M 10s", "LogLevel DEBUG1"}})
	began := time.Now()
	file, out := filepath.Join(c.Shared(), "soaked"), filepath.Join(c.Shared(), "soak.out")
	script := filepath.Join(c.Shared(), "soak.sh")
	require.NoError(t, os.WriteFile(script, fmt.Appendf(nil, soakScript, file, soakWidth), 0o644))
	term := openTerminal(t, func(args ...string) *exec.Cmd { return c.Command(context.Background(), args...) })
	term.line("%s -n %d --hosts node[0001-%04d] --tree kary:2 --ssh native "+
		"--ssh-args '-o RekeyLimit=1M -o ServerAliveInterval=5 -o ServerAliveCountMax=2' sh %s >%s; echo code=$?",
		program, soakNodes, soakNodes, script, out)
	all := func(pattern string) func() bool {
		return func() bool {
			text, err := os.ReadFile(out)
			return err == nil && len(regexp.MustCompile(pattern).FindAll(text, -1)) >= soakNodes
		}
	}
	term.await("all ranks count", all(`(?m)^\d 2$`))

	term.keys(ctrlZ)
	term.expect("Stopped")
	term.awaitStop(soakNodes)
	held, err := os.ReadFile(out)
	require.NoError(t, err)
	<-time.After(long) // the fault's length, not a wait for something
	still, err := os.ReadFile(out)
	require.NoError(t, err)
	require.Equal(t, len(held), len(still), "nobody says anything")
	term.line("fg; echo code=$?")

	agent := agentOn(t, c, "node0002")
	require.NoError(t, syscall.Kill(agent, syscall.SIGSTOP))
	<-time.After(agentStopped)
	require.NoError(t, syscall.Kill(agent, syscall.SIGCONT))

	<-time.After(time.Until(began.Add(*soak)))
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	term.expect("code=0")
	require.NotRegexp(t, `ibrun: [^lw]`, term.text(), "but of the launch, and what it waits for")
	requireCounted(t, out)
	for _, node := range c.Nodes() {
		log, err := os.ReadFile(c.Log(node))
		require.NoError(t, err)
		exchanges := strings.Count(string(log), "rekeying in, ")
		t.Log(node, "key exchanges after the first:", exchanges)
		require.GreaterOrEqual(t, exchanges, int((*soak-long-agentStopped)/(10*time.Second))-3, node)
	}
}

// requireCounted holds that each rank's numbers are all there, in their order.
func requireCounted(t *testing.T, out string) {
	text, err := os.ReadFile(out)
	require.NoError(t, err)
	next, done := map[int]int{}, 0
	for line := range strings.Lines(string(text)) {
		var rank, i int
		switch {
		case strings.HasPrefix(line, "x"):
			require.Len(t, line, soakWidth+1)
			continue
		case strings.Contains(line, "done"):
			_, err = fmt.Sscanf(line, "%d done %d\n", &rank, &i)
			done++
		default:
			_, err = fmt.Sscanf(line, "%d %d\n", &rank, &i)
			next[rank]++
			i++
		}
		require.NoError(t, err, "%.80q", line)
		require.Equal(t, next[rank], i, "%.80q", line)
	}
	require.Equal(t, soakNodes, done)
}

// agentOn is the agent of the only job on a node.
func agentOn(t *testing.T, c *cluster.Cluster, host string) int {
	procs, err := c.Processes(host)
	require.NoError(t, err)
	for _, p := range procs {
		if len(p.Argv) > 1 && p.Argv[1] == reaper.Agent {
			return p.Pid
		}
	}
	require.FailNow(t, "no agent on "+host)
	return 0
}
