package lazy

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/fabric/mem"
)

// TestFlushHeld: ranks that answer each other late hold acknowledgements, and Flush does not wait
// for that.
func TestFlushHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const delay, step = 4 * time.Millisecond, 60 * time.Millisecond
		w := newWorld(t, 2, 1, overMem(mem.New(1, mem.Faults{Delay: delay}))).start()
		ctx := within(t)
		message := make([]byte, 64)
		for turn := range uint32(20) {
			from, to := turn%2, 1-turn%2
			require.NoError(t, w.table(from).Send(ctx, to, message))
			_, err := w.table(to).Recv(ctx)
			require.NoError(t, err)
			<-time.After(step / 2)
		}
		f := w.table(0).remotePeer(1)
		require.NoError(t, w.table(0).Send(ctx, 1, message))
		<-time.After(3 * delay)
		f.t.fmu.Lock()
		require.Equal(t, 1, f.peer.Unacked(), "it is held")
		f.t.fmu.Unlock()
		began := time.Now()
		require.NoError(t, w.table(0).Flush(ctx))
		require.Equal(t, 2*delay, time.Since(began), "the question, and the answer")
	})
}
