//go:build managers

package managers

import (
	"bytes"
	"context"
	"flag"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/test/executable"
	"ibrun/test/product"
	"ibrun/test/skip"
	"ibrun/test/vcluster/cluster"
)

// launcher is the path of ibrun.
var launcher string

func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", "3") // three tests at the same time, because they mostly wait
	os.Exit(product.Run(m, &launcher))
}

// timeLimit is the time after which a test or subtest fails.
const timeLimit = 8 * time.Minute

// scheduler is a resource manager: a *Slurm or a *GridEngine. Command returns a command that runs on the front, the
// host of the virtual cluster from which tests start jobs.
type scheduler interface {
	Command(ctx context.Context, args ...string) *exec.Cmd
}

// bed is a virtual cluster on which a resource manager runs. Its methods are for the test t, and end at the time limit
// of ctx.
type bed struct {
	t *testing.T
	c *cluster.Cluster
	scheduler
	ctx   context.Context
	ibrun string // path of a copy of ibrun that all hosts see
}

// forSubtest returns a bed with the same cluster for the subtest t, which has its own time limit.
func (b *bed) forSubtest(t *testing.T) *bed {
	ctx, cancel := context.WithTimeout(t.Context(), timeLimit)
	t.Cleanup(cancel)
	return &bed{t, b.c, b.scheduler, ctx, b.ibrun}
}

// slurm starts Slurm on a new cluster without sshd.
func slurm(t *testing.T, nodes int, cfg SlurmConfig) *bed {
	return slurmOn(t, cluster.Config{Nodes: nodes, NoSSH: true}, cfg)
}

// slurmOn starts Slurm on a new cluster.
func slurmOn(t *testing.T, on cluster.Config, cfg SlurmConfig) *bed {
	if _, err := exec.LookPath("slurmctld"); err != nil {
		skip.Because(t, "Slurm is missing: make test-managers installs it")
	}
	if !HasGroups() {
		skip.Because(t, "cgroups of version 1 are missing: without them Slurm itself signals all processes of a job")
	}
	var s *Slurm
	t.Cleanup(func() { // runs after the cluster has ended
		if s != nil {
			s.RemoveGroups()
		}
	})
	c := cluster.Require(t, on)
	ctx, cancel := context.WithTimeout(t.Context(), timeLimit)
	t.Cleanup(cancel)
	var err error
	s, err = StartSlurm(ctx, c, cfg)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return newBed(ctx, t, c, s)
}

// newBed copies ibrun to the folder that all hosts share, and returns a bed for the test t.
func newBed(ctx context.Context, t *testing.T, c *cluster.Cluster, m scheduler) *bed {
	b := &bed{t, c, m, ctx, filepath.Join(c.Shared(), "ibrun")}
	binary, err := os.ReadFile(launcher)
	require.NoError(t, err)
	require.NoError(t, executable.Write(b.ibrun, binary))
	return b
}

// run runs a command on the front and waits for it. It returns the standard output without leading and trailing white
// space. The test fails if the command does.
func (b *bed) run(args ...string) string {
	cmd := b.Command(b.ctx, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.WaitDelay = time.Second
	require.NoError(b.t, cmd.Run(), "%v\n%s%s", args, &out, &errs)
	return strings.TrimSpace(out.String())
}

// script writes a bash script with the name and the text to the folder that all hosts share, and returns its path.
func (b *bed) script(name, text string) string {
	path := filepath.Join(b.c.Shared(), name)
	require.NoError(b.t, executable.Write(path, []byte("#!/bin/bash\n"+text)))
	return path
}

// read returns the contents of a file in the folder that all hosts share, or "" if the file does not exist.
func (b *bed) read(name string) string {
	text, _ := os.ReadFile(filepath.Join(b.c.Shared(), name))
	return string(text)
}

// until calls f every 400 ms until it returns true. If ctx ends first, the test fails with a message that contains
// what.
func (b *bed) until(what string, f func() bool) {
	b.t.Helper()
	for !f() {
		select {
		case <-b.ctx.Done():
			b.t.Fatalf("waited for %s: %v", what, b.ctx.Err())
		case <-time.After(400 * time.Millisecond): // f often lists all processes, which takes CPU time
		}
	}
}

// waitForExit waits until no process on any host has launcher or word in its command line. launcher is the path of
// ibrun.
func (b *bed) waitForExit(launcher, word string) {
	b.t.Helper()
	b.until("the end of all processes of the job", func() bool {
		all, err := b.c.AllProcesses()
		require.NoError(b.t, err)
		for _, p := range slices.Concat(slices.Collect(maps.Values(all))...) {
			line := strings.Join(p.Argv, " ")
			if strings.Contains(line, word) || strings.Contains(line, launcher) {
				return false
			}
		}
		return true
	})
}
