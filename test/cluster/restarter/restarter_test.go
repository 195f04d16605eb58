//go:build cluster

package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/test/product"
	"ibrun/test/vcluster/cluster"
)

var restarts = flag.Int("restarts", 10, "in each job of the tests")

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

// Ranks that kill themselves under traffic are there again within two seconds, by datagrams and by
// streams. No message of an old start is delivered, and none that was for one.
func TestTraffic(t *testing.T) {
	c := cluster.Require(t, cluster.Config{Nodes: 4})
	program := filepath.Join(c.Shared(), "restarter")
	require.NoError(t, product.Program(program, "ibrun/test/cluster/restarter"))
	for seed, fabric := range []string{"udp", "tcp"} {
		o := job(t, c, "-n", "8", "--hosts", "node[0001-0004]:2", "--fabric", fabric, "--on-failure", "restart",
			"--max-restarts", "1000", program, "-restarts", strconv.Itoa(*restarts), "-seed", strconv.Itoa(seed+1))
		require.Equal(t, 0, o.code, "%s\n%s", o.stdout, o.stderr)
		require.Equal(t, *restarts, strings.Count(o.stderr, "killed by signal 9 (KILL); it starts again"), o.stderr)
		require.Equal(t, 8, strings.Count(o.stdout, "none stale"), o.stdout)
		took := regexp.MustCompile(fmt.Sprintf(`%d restarts under traffic: .*`, *restarts)).FindString(o.stdout)
		require.NotEmpty(t, took, o.stdout)
		t.Logf("%s: %s", fabric, took)
	}
}
