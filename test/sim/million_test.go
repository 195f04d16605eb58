package sim

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/tree"
)

// What one launch costs where it was measured (facts: native ssh with quick
// ACKs, one core at the parent; a static program; a message on a local network).
const (
	measuredSEQ   = 2200 * time.Microsecond
	measuredREM   = 52 * time.Millisecond
	measuredStart = 600 * time.Microsecond
	measuredHop   = 100 * time.Microsecond
)

// 1,048,576 ranks on 16,384 nodes, by the production core, run after at most
// 1.5 times what the best tree needs for its agents alone: ranks start while the
// tree still grows, and what comes back are small messages. It costs Launch,
// Ready and Exit on each edge, no more than for a few.
func TestMillionRanks(t *testing.T) {
	const ppn = 64
	cfg := plan(scale.nodes, ppn, fmt.Sprintf("greedy:%v,%v,%d", measuredSEQ, measuredREM, tree.Window))
	cfg.Session, cfg.Turn, cfg.Start, cfg.Hop = measuredREM, measuredSEQ, measuredStart, measuredHop
	cfg.Run, cfg.Job.Launch.LateBinding = time.Second, true
	w := succeed(t, cfg)
	windowed := tree.Cost{SEQ: measuredSEQ, REM: measuredREM, Window: tree.Window}.Optimum(scale.nodes + 1)
	free := tree.Cost{SEQ: measuredSEQ, REM: measuredREM}.Optimum(scale.nodes + 1)
	t.Logf("%d ranks on %d nodes, %d deep: ready after %v of virtual time", cfg.Job.Size, scale.nodes, w.Depth,
		w.Ready)
	t.Logf("T* with %d sessions at a time %v, ratio %.2f; with any number %v, ratio %.2f (bound: 1.5)", tree.Window,
		windowed, over(w.Ready, windowed), free, over(w.Ready, free))
	t.Logf("peak %d MiB (bound: 4 GB)", peak(t)>>10)
	require.Positive(t, w.Ready)
	require.LessOrEqual(t, over(w.Ready, free), 1.5)
	require.Less(t, peak(t), 4_000_000)
}

func over(a, b time.Duration) float64 { return float64(a) / float64(b) }

// peak is the most memory that this process has had, in KiB (proc_pid_status(5)).
func peak(t *testing.T) int {
	b, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(b), "VmHWM:")
	require.True(t, ok)
	n, err := strconv.Atoi(strings.Fields(rest)[0])
	require.NoError(t, err)
	return n
}
