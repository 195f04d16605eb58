package costs

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/tree"
	"ibrun/internal/job"
)

// twentyNodes is a flat launch of so many nodes, with a session a centisecond.
func twentyNodes() *tree.Launch {
	l := &tree.Launch{Launcher: "ssh"}
	for i := range 20 {
		n := tree.Node{NodeTimes: job.NewNodeTimes(job.NodeIndex(i))}
		n.Mark(job.SessionStarted, time.Duration(i)*10*time.Millisecond)
		n.Mark(job.LaunchSent, time.Duration(i)*10*time.Millisecond+40*time.Millisecond)
		l.Nodes = append(l.Nodes, n)
	}
	return l
}

func TestCostsAreKept(t *testing.T) {
	cache := t.TempDir()
	name := Path([]string{"HOME=/nowhere", "XDG_CACHE_HOME=" + cache})
	require.Equal(t, filepath.Join(cache, "ibrun", "costs.json"), name)
	Note(name, "node", twentyNodes())
	costs := Read(name)
	cost, launches, ok := costs.Cost("ssh", "node")
	require.True(t, ok)
	require.Equal(t, 1, launches)
	require.Equal(t, 10*time.Millisecond, cost.SEQ)
	require.Equal(t, 40*time.Millisecond, cost.REM)
	var text bytes.Buffer
	Show(&text, name)
	require.Regexp(t, `ssh +node +1 +20 +10ms +40ms +4`, text.String())
	left, err := os.ReadDir(filepath.Dir(name))
	require.NoError(t, err)
	require.Len(t, left, 1, "no temporary file stays")
}

// A cache that cannot be used is none, and nobody is told.
func TestCostsThatCannotBeKept(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, []byte("\x00garbage"), 0o600))
	Note(filepath.Join(file, "ibrun", "costs.json"), "node", twentyNodes())
	Note("", "node", twentyNodes())
	require.Empty(t, Read(file).Places)
	require.Empty(t, Read(dir).Places)
	require.Empty(t, Read(filepath.Join(dir, "none")).Places)
	Note(file, "node", twentyNodes())
	require.Len(t, Read(file).Places, 1, "garbage is replaced")
	require.Empty(t, Path([]string{"XDG_CACHE_HOME=relative"}))
	require.Equal(t, "/h/.cache/ibrun/costs.json", Path([]string{"XDG_CACHE_HOME=relative", "HOME=/h"}))
	var text bytes.Buffer
	Show(&text, "")
	require.Contains(t, text.String(), "no launch was measured yet")
}
