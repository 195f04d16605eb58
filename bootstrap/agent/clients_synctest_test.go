package agent

import (
	"runtime/debug"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Memory is given back when clients of PMIx have been silent for two seconds, however long after
// the last of them came, and again when they have asked for something later.
func TestThrift(t *testing.T) {
	percent := debug.SetGCPercent(100)
	defer debug.SetGCPercent(percent)
	synctest.Test(t, func(t *testing.T) {
		var of thrift
		var given atomic.Int32
		back := func() { given.Add(1) }
		of.heard()
		<-time.After(time.Hour)
		require.Zero(t, given.Load(), "there is no client")
		of.client(back)
		of.client(back)
		for range 10 {
			<-time.After(clientsRest - 1)
			of.heard()
		}
		<-time.After(clientsRest - 1)
		require.Zero(t, given.Load(), "they are not silent")
		<-time.After(1)
		synctest.Wait()
		require.EqualValues(t, 1, given.Load())
		<-time.After(time.Hour)
		require.EqualValues(t, 1, given.Load(), "none of them has spoken")
		of.heard()
		<-time.After(clientsRest)
		synctest.Wait()
		require.EqualValues(t, 2, given.Load())
	})
}
