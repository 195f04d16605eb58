package ib

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// One goroutine keeps its processor at a time, and none where one polls.
func TestOneGoroutineKeeps(t *testing.T) {
	f := &Fabric{}
	require.Equal(t, [2]time.Duration{0, keepFor}, [2]time.Duration{f.keeping(true), f.keeping(false)})
	f.streaming.Store(true)
	require.Equal(t, [2]time.Duration{keepFor, 0}, [2]time.Duration{f.keeping(true), f.keeping(false)})
	f.cfg.Spin = true
	require.Equal(t, [2]time.Duration{}, [2]time.Duration{f.keeping(true), f.keeping(false)})
}
