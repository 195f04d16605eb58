//go:build ib

package ib

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// asleep says how many goroutines wait in the Go poller below a function.
func asleep(in string) (n int) {
	all := make([]byte, 1<<20)
	for _, one := range strings.Split(string(all[:runtime.Stack(all, true)]), "\n\n") {
		if first, rest, _ := strings.Cut(one, "\n"); strings.Contains(first, "[IO wait") && strings.Contains(rest, in) {
			n++
		}
	}
	return n
}

// A rank that polls has one CPU. So while it has streams, their goroutine polls and that of
// datagrams sleeps; without, it is the other way round.
func TestOneGoroutinePolls(t *testing.T) {
	polls := config("mlx5_0")
	polls.Spin = true
	f, _ := openAt(t, polls)
	far, box := openAt(t, config("mlx5_0"))
	offer, err := far.Offer()
	require.NoError(t, err)
	const datagrams, streams = "ib.(*Fabric).receive", "ib.(*engine).serve"
	asleepAre := func(d, s int) {
		require.Eventually(t, func() bool { return asleep(datagrams) == d && asleep(streams) == s }, patience,
			time.Millisecond, "%d of datagrams and %d of streams", d, s)
	}
	asleepAre(1, 1) // those of the other side, and our datagrams are polled for

	s, err := f.Dial(t.Context(), far.Tuple(), offer)
	require.NoError(t, err)
	asleepAre(2, 1)
	other := box.Stream(t)
	passes(t, s, other, "polled")

	require.NoError(t, s.Close())
	require.NoError(t, other.Close())
	require.Eventually(t, func() bool { return asleep(streams) == 2 }, patience, time.Millisecond)
	// One datagram is still waited for, unless a call that was repeated has come since.
	require.NoError(t, far.Post(f.Tuple(), []byte("wakes")))
	asleepAre(1, 2)
}
