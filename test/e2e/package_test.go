package e2e

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	app "ibrun"
)

func init() {
	scenarios["ranks"] = func(r *rank, _ string) { r.noSuchRanks() }
	scenarios["twice"] = func(r *rank, _ string) { r.initTwice() }
}

// initTwice requires that a second Init fails rather than be a job of one rank, and spoils nothing.
func (r *rank) initTwice() {
	second, err := app.Init(r.ctx)
	require.ErrorIs(r, err, app.ErrInitialized)
	require.Nil(r, second)
	require.NoError(r, r.Barrier(r.ctx))
}

func TestWorldInitTwice(t *testing.T) {
	succeeds(t, stage{"", []string{"-n", "3"}}, "twice")
}

// nodeOf is the node of a rank that there is.
func (r *rank) nodeOf(rank int) int {
	node, err := r.NodeOf(rank)
	require.NoError(r, err)
	return node
}

// noSuchRanks gives each method that takes a rank those that there are not.
func (r *rank) noSuchRanks() {
	for _, bad := range []int{-1, r.Size(), 1 << 32, 1<<32 + r.Rank(), math.MinInt} {
		for name, call := range map[string]func() error{
			"NodeOf":    func() error { _, err := r.NodeOf(bad); return err },
			"Send":      func() error { return r.Send(r.ctx, bad, nil) },
			"TrySend":   func() error { return r.TrySend(bad, nil) },
			"RecvFrom":  func() error { _, err := r.RecvFrom(r.ctx, bad); return err },
			"Warm":      func() error { return r.Warm(r.Rank(), bad) },
			"Get":       func() error { _, err := r.Get(r.ctx, bad, "k"); return err },
			"Broadcast": func() error { _, err := r.Broadcast(r.ctx, bad, nil); return err },
			"Gather":    func() error { _, err := r.Gather(r.ctx, bad, nil); return err },
			"Scatter":   func() error { _, err := r.Scatter(r.ctx, bad, nil); return err },
		} {
			err := call()
			require.ErrorIs(r, err, app.ErrNoSuchRank, "%s of rank %d", name, bad)
			require.ErrorContains(r, err, fmt.Sprintf("ibrun: %s: rank %d of 0 to %d: ", name, bad, r.Size()-1))
		}
	}
	require.NoError(r, r.Barrier(r.ctx))
	short, cancel := context.WithTimeout(r.ctx, time.Millisecond)
	defer cancel()
	from, _, err := r.Recv(short)
	require.ErrorIs(r, err, context.DeadlineExceeded)
	require.ErrorIs(r, r.Send(r.ctx, from, nil), app.ErrNoSuchRank, "the sender of no message")
	require.NoError(r, r.Barrier(r.ctx))
}

func TestWorldNoSuchRank(t *testing.T) {
	succeeds(t, stage{"", []string{"-n", "3"}}, "ranks")
	succeeds(t, five("--lazy", "flat"), "ranks")
}

// Another module requires the package as the README says, and its program runs as a job.
func TestAnotherModule(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	dir := t.TempDir()
	main, err := os.ReadFile(filepath.Join(root, "examples", "ring", "main.go"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), main, 0o600))
	// The sums are those of ibrun: a machine without a network cannot ask for others.
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.sum"), sums, 0o600))
	for _, args := range [][]string{
		{"mod", "init", "example.org/solver"},
		{"mod", "edit", "-require=ibrun@v0.0.0", "-replace=ibrun=" + root},
		{"mod", "tidy"},
		{"build", "-o", "solver", "."},
	} {
		c := exec.Command("go", args...)
		c.Dir, c.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
		out, err := c.CombinedOutput()
		require.NoError(t, err, "go %s: %s", strings.Join(args, " "), out)
	}
	o := ibrun(t, "-n", "3", filepath.Join(dir, "solver"))
	require.Equal(t, 0, o.code, o.stderr)
	require.Empty(t, o.stderr)
}
