package cluster

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestMainThreadStays calls onThread from many goroutines at the same time. No call may use the main thread.
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
