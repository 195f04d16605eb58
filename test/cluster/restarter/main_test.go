//go:build cluster || soak

package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/test/product"
	"ibrun/test/vcluster/cluster"
)

// launcher is ibrun.
var launcher string

func TestMain(m *testing.M) { os.Exit(product.Run(m, &launcher)) }

// outcome is how a command ended.
type outcome struct {
	code           int
	stdout, stderr string
}

// job runs ibrun on a cluster.
func job(t *testing.T, c *cluster.Cluster, args ...string) outcome {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := c.Command(ctx, append([]string{launcher}, args...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
	}
	return outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// playTraffic lets ranks kill themselves under traffic, by datagrams and by streams. They start again. No message of an
// old start is delivered, and none that was for one.
func playTraffic(t *testing.T, restarts int) {
	c := cluster.Require(t, cluster.Config{Nodes: 4})
	program := filepath.Join(c.Shared(), "restarter")
	require.NoError(t, product.Program(program, "ibrun/test/cluster/restarter"))
	for seed, fabric := range []string{"udp", "tcp"} {
		o := job(t, c, "-n", "8", "--hosts", "node[0001-0004]:2", "--fabric", fabric, "--on-failure", "restart",
			"--max-restarts", "1000", program, "-restarts", strconv.Itoa(restarts), "-seed", strconv.Itoa(seed+1))
		require.Equal(t, 0, o.code, "%s\n%s", o.stdout, o.stderr)
		require.Equal(t, restarts, strings.Count(o.stderr, "killed by signal 9 (KILL); it starts again"), o.stderr)
		require.Equal(t, 8, strings.Count(o.stdout, "none stale"), o.stdout)
		require.Contains(t, o.stdout, fmt.Sprintf("%d restarts under traffic: ", restarts))
		t.Logf("%s: %s", fabric, o.stdout)
	}
}

// playSpare lets the ranks of a lost node run on a spare, also if the node is cut off and nobody can ask it.
func playSpare(t *testing.T, cut bool) {
	c := cluster.Require(t, cluster.Config{Nodes: 4})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	script := `echo $IBRUN_RESTART of $RANK
[ $IBRUN_RESTART$RANK$0 = 02kill ] && { sleep 0.5; kill -9 $PPID; }
[ $IBRUN_RESTART = 1 ] || exec sleep 1000`
	how, loss := "kill", "end"
	if cut {
		how, loss = "cut", "repair"
	}
	cmd := c.Command(ctx, launcher, "--hosts", "node[0001-0004]", "--spares", "1", "-n", "3", "--on-failure", "restart",
		"--on-agent-loss", loss, "sh", "-c", script, how)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	up, again := 0, false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if again = strings.HasPrefix(lines.Text(), "1 of 2"); again {
			break
		}
		if up++; up == 3 && cut {
			require.NoError(t, c.Cut("node0003"))
		}
	}
	require.NoError(t, cmd.Cancel())
	_ = cmd.Wait() // it was ended
	require.Equal(t, 3, up, stderr.String())
	require.True(t, again, stderr.String())
	require.Contains(t, stderr.String(), "spare node0004 takes the place of node0003")
}
