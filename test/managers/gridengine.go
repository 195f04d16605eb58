package managers

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"ibrun/test/vcluster/cluster"
)

//go:embed gridengine.sh
var gridEngineScript string

// GridEngine is a running Grid Engine with two slots on each node.
type GridEngine struct {
	c   *cluster.Cluster
	dir string
}

// StartGridEngine starts Grid Engine on a cluster, and returns when all nodes take jobs.
func StartGridEngine(ctx context.Context, c *cluster.Cluster) (*GridEngine, error) {
	g := &GridEngine{c, filepath.Join(c.Shared(), "gridengine")}
	if err := os.MkdirAll(g.dir, 0o755); err != nil {
		return nil, err
	}
	for dir := g.dir; dir != "/tmp"; dir = filepath.Dir(dir) { // the daemons run as the user sgeadmin and must enter
		if err := os.Chmod(dir, 0o755); err != nil {
			return nil, err
		}
	}
	begin := g.Command(ctx, append([]string{"bash", "-c", gridEngineScript, "gridengine.sh", g.dir}, c.Nodes()...)...)
	log, err := os.Create(filepath.Join(g.dir, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	begin.Stdout, begin.Stderr = log, log
	if err := begin.Run(); err != nil {
		g.Close()
		text, _ := os.ReadFile(log.Name())
		return nil, fmt.Errorf("grid engine: %w\n%s", err, text[max(0, len(text)-3000):])
	}
	for {
		out, _ := g.Command(ctx, "qstat", "-f").Output()
		ready := 0
		for line := range strings.Lines(string(out)) {
			const stateless = 5 // fields of a line if the state of the queue is empty, so that it accepts jobs
			if strings.HasPrefix(line, "all.q@") && len(strings.Fields(line)) == stateless {
				ready++
			}
		}
		if ready == len(c.Nodes()) {
			return g, nil
		}
		select {
		case <-ctx.Done():
			g.Close()
			return nil, fmt.Errorf("grid engine: %d of %d nodes take jobs: %w\n%s", ready, len(c.Nodes()), ctx.Err(),
				out)
		case <-time.After(300 * time.Millisecond):
		}
	}
}

// Command returns a command that runs on the front, and whose environment makes the programs of Grid Engine use g.
func (g *GridEngine) Command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := g.c.Command(ctx, args...)
	cmd.Env = append(os.Environ(), "SGE_ROOT="+filepath.Join(g.dir, "root"), "SGE_CELL=default",
		"SGE_QMASTER_PORT=6444", "SGE_EXECD_PORT=6445")
	cmd.Dir = g.c.Shared()
	return cmd
}

// Close kills sge_qmaster, the only daemon on the front. The daemons on the nodes end with the cluster.
func (g *GridEngine) Close() {
	text, _ := os.ReadFile(filepath.Join(g.dir, "spool/qmaster/qmaster.pid"))
	if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && pid > 1 {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}
