//go:build cluster

package main

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/test/vcluster/cluster"
)

var cut = flag.Bool("cut", false, "TestSpareInTime cuts a node off, which takes 15 s, in place of killing its agent")

// The ranks of a node that is lost run on a spare within 15 s, also if nobody can ask the node.
func TestSpareInTime(t *testing.T) {
	c := cluster.Require(t, cluster.Config{Nodes: 4})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	script := `echo $IBRUN_RESTART of $RANK
[ $IBRUN_RESTART$RANK$0 = 02kill ] && { sleep 0.5; kill -9 $PPID; }
[ $IBRUN_RESTART = 1 ] || exec sleep 1000`
	how, loss := "kill", "end"
	if *cut {
		how, loss = "cut", "repair"
	}
	cmd := c.Command(ctx, launcher, "--hosts", "node[0001-0004]", "--spares", "1", "-n", "3", "--on-failure", "restart",
		"--on-agent-loss", loss, "sh", "-c", script, how)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	up, began, again := 0, time.Time{}, false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if again = strings.HasPrefix(lines.Text(), "1 of 2"); again {
			break
		}
		if up++; up == 3 {
			if began = time.Now(); *cut {
				require.NoError(t, c.Cut("node0003"))
			}
		}
	}
	took := time.Since(began)
	require.NoError(t, cmd.Cancel())
	_ = cmd.Wait() // it was ended
	require.Equal(t, 3, up, stderr.String())
	require.True(t, again, stderr.String())
	require.Contains(t, stderr.String(), "spare node0004 takes the place of node0003")
	require.Less(t, took, 20*time.Second, stderr.String())
	t.Logf("%s: rank 2 runs on the spare after %v", how, took.Round(10*time.Millisecond))
}
