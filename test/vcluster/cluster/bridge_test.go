package cluster

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestMainThreadStays makes 64 concurrent calls of onThread. None of them may run on the main thread.
func TestMainThreadStays(t *testing.T) {
	const calls = 64
	var all, here sync.WaitGroup
	all.Add(calls)
	mains := make(chan bool, calls)
	for range calls {
		here.Go(func() {
			_ = onThread(func() error {
				mains <- unix.Gettid() == unix.Getpid()
				all.Done()
				all.Wait()
				return nil
			})
		})
	}
	here.Wait()
	close(mains)
	for main := range mains {
		require.False(t, main)
	}
}
