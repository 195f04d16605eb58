package agent

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCores(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(before)
	now := func() int { return runtime.GOMAXPROCS(0) }
	all := min(runtime.NumCPU(), mostCores)
	var c cores
	c.begin()
	c.begin()
	require.Equal(t, before, now(), "not asked to save")
	c.end()
	c.end()
	c.save()
	require.Equal(t, 1, now())
	c.begin()
	require.Equal(t, 1, now(), "one session")
	c.begin()
	require.Equal(t, all, now(), "two")
	c.end()
	require.Equal(t, all, now(), "as long as one is on its way")
	c.end()
	require.Equal(t, 1, now())
}
