package lazy

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/fabric/mem"
	"ibrun/lazy/peer"
)

// The side that has a stream first may find it idle before the other has it;
// the answer is that it is wanted, or both would wait for ever.
func TestLeaveBeforeTheStream(t *testing.T) {
	w := newWorld(t, 2, 1, overMem(mem.New(1, mem.Faults{}))).start()
	ctx := within(t)
	require.NoError(t, w.table(0).Send(ctx, 1, []byte("hello")))
	_, err := w.table(1).Recv(ctx)
	require.NoError(t, err)
	table := w.table(0)
	f := table.remotePeer(1)
	table.fmu.Lock()
	f.upgrade.drain.ours = true
	table.step(f, peer.Event{Kind: peer.Control, Msg: []byte{ctlLeave}})
	table.fmu.Unlock()
	require.Eventually(t, func() bool {
		table.fmu.Lock()
		defer table.fmu.Unlock()
		return !f.upgrade.drain.ours
	}, patience, time.Millisecond)
}
