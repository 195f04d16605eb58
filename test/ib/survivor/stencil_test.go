//go:build ib

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/cgo/verbs"
	"ibrun/test/executable"
	"ibrun/test/fakeverbs"
	"ibrun/test/product"
	"ibrun/test/rdmavm/inside"
	"ibrun/test/screen"
	"ibrun/test/skip"
	"ibrun/test/vcluster/cluster"
)

// launcher is the path of the ibrun that is tested.
var launcher string

func TestMain(m *testing.M) { os.Exit(product.Run(m, &launcher)) }

// expectedResult computes the result that a job with these numbers of ranks and steps must print.
func expectedResult(ranks int, steps uint64) (total uint64) {
	all := make([][]uint64, ranks)
	for i := range all {
		all[i] = initialCells(i)
	}
	for range steps {
		after := make([][]uint64, ranks)
		for i, own := range all {
			after[i] = nextCells(own, all[(i+ranks-1)%ranks][cells-1], all[(i+1)%ranks][0])
		}
		all = after
	}
	for i, own := range all {
		total += checksum(i, own)
	}
	return total
}

// job is a running stencil.
type job struct {
	t              *testing.T
	c              *cluster.Cluster
	stdout, stderr screen.Screen // what the job has printed so far
	ended          chan struct{}
}

// waitForText waits until the output of, which is j.stdout or j.stderr, contains the text. The test fails if the job
// ends before.
func (j *job) waitForText(of *screen.Screen, text string) {
	j.t.Helper()
	j.waitFor(text, func() bool { return strings.Contains(of.String(), text) })
}

// waitFor calls is every 10 ms until it returns true. If the job ends before, the test fails with a message that
// contains what. The job ends at the latest when its context does.
func (j *job) waitFor(what string, is func() bool) {
	j.t.Helper()
	for !is() {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-j.ended:
			if !is() {
				require.FailNow(j.t, "the job has ended", "%s\n%s\n%s", what, &j.stdout, &j.stderr)
			}
		}
	}
}

// waitForSteps waits until rank 0 has computed about more further steps, as its output after each checkpoint shows.
func (j *job) waitForSteps(more int) {
	j.t.Helper()
	before := strings.Count(j.stdout.String(), "step ")
	j.waitFor(fmt.Sprintf("%d steps more", more), func() bool {
		return strings.Count(j.stdout.String(), "step ")-before >= more/checkpointSteps
	})
}

// TestStencil runs survivor on simulated InfiniBand devices. Four events follow each other: a port goes down, a rank is
// killed, a node inside the chain of agents crashes and is replaced by a spare node, and the port becomes active again.
// The job must print the same result as without these events.
func TestStencil(t *testing.T) {
	if os.Getuid() != 0 {
		skip.Because(t, "virtual clusters need root")
	}
	const ranks, steps = 8, 900
	c := cluster.Require(t, cluster.Config{Nodes: 5})
	net := simulateDevices(t, c)
	program, dir := filepath.Join(c.Shared(), "survivor"), filepath.Join(c.Shared(), "checkpoints")
	bin, err := inside.Build("ibrun/test/ib/survivor")
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(bin, "survivor"))
	require.NoError(t, err)
	require.NoError(t, executable.Write(program, text))
	require.NoError(t, os.Mkdir(dir, 0o700))
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	cmd := c.Command(ctx, launcher, "-v", "-n", fmt.Sprint(ranks), "--hosts", "node[0001-0005]:2", "--spares", "1",
		"--tree", "chain", "--fabric", "auto", "--on-failure", "restart", "--on-agent-loss", "repair",
		"sh", "-c", withDevice, "sh", c.Shared(), program, "-dir", dir, "-steps", fmt.Sprint(steps))
	j := &job{t: t, c: c, ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &j.stdout, &j.stderr
	require.NoError(t, cmd.Start())
	go func() {
		_ = cmd.Wait()
		close(j.ended)
	}()

	j.waitForText(&j.stdout, "step 100\n")
	_, err = net.Order("port mlx5_4 1 down")
	require.NoError(t, err)
	j.waitForText(&j.stderr, "port mlx5_4:1 went down")
	j.waitForSteps(100)

	j.kill("node0003", program)
	j.waitForText(&j.stdout, "round 2 from")
	j.waitForSteps(100)

	require.NoError(t, c.Crash("node0002"))
	j.waitForText(&j.stderr, "spare node0005 takes the place of node0002")
	j.waitForText(&j.stdout, "round 3 from")
	j.waitForSteps(100)

	_, err = net.Order("port mlx5_4 1 active")
	require.NoError(t, err)
	j.waitForText(&j.stderr, "node0004: data goes by InfiniBand again")
	<-j.ended
	t.Logf("%s", &j.stderr)
	require.Equal(t, 0, cmd.ProcessState.ExitCode(), "%s\n%s", &j.stdout, &j.stderr)
	require.Contains(t, j.stdout.String(), fmt.Sprintf("result %x after", expectedResult(ranks, steps)))
}

// kill sends SIGKILL to one process of a program on a node. The test fails if there is no such process.
func (j *job) kill(node, program string) {
	j.t.Helper()
	all, err := j.c.AllProcesses()
	require.NoError(j.t, err)
	for _, p := range all[node] {
		if len(p.Argv) > 0 && p.Argv[0] == program {
			require.NoError(j.t, syscall.Kill(p.Pid, syscall.SIGKILL))
			return
		}
	}
	require.FailNow(j.t, "no process", "%s on %s", program, node)
}

// withDevice is a shell script that runs a rank with the simulated device of its host. The arguments are the shared
// folder and the command of the rank. The script mounts an overlay over /dev, in which the fake libibverbs can create
// device files.
const withDevice = `. "$1/devices.$(hostname)" && shift && exec unshare -m sh -c 'at=$(mktemp -d) &&
mount -t tmpfs tmpfs "$at" && mkdir "$at/upper" "$at/work" &&
mount -t overlay overlay -o "lowerdir=/dev,upperdir=$at/upper,workdir=$at/work" /dev &&
mkdir -p /dev/infiniband && exec "$@"' sh "$@"`

// simulateDevices simulates an InfiniBand network with one device in each node. For each node it writes a shell script
// to the shared folder. The script sets the environment variables of the node's device, and withDevice executes it.
func simulateDevices(t *testing.T, c *cluster.Cluster) *fakeverbs.Network {
	net, err := fakeverbs.New(c.Shared())
	require.NoError(t, err)
	for i, host := range c.Nodes() {
		name, lid := fmt.Sprintf("mlx5_%d", i+1), uint16(i+1)
		port := fakeverbs.Port{LID: lid, SMLID: 1, GIDs: []verbs.GID{{Type: verbs.GIDIB,
			Addr: [16]byte{0: 0xfe, 1: 0x80, 15: byte(lid)}}}}
		var script strings.Builder
		fmt.Fprintf(&script, "export IBRUN_HCA=%s:1\n", name)
		for _, v := range net.Env(fakeverbs.Node{Devices: []fakeverbs.Device{{Name: name, GUID: uint64(lid),
			Ports: []fakeverbs.Port{port}}}}) {
			key, value, _ := strings.Cut(v, "=")
			fmt.Fprintf(&script, "export %s='%s'\n", key, value)
		}
		require.NoError(t, os.WriteFile(filepath.Join(c.Shared(), "devices."+host), []byte(script.String()), 0o644))
	}
	return net
}
