package lazy

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/fabric/mem"
)

// The side that has a stream first may find it idle before the other has it;
// the answer is that it is wanted, or both would wait for ever.
func TestLeaveBeforeTheStream(t *testing.T) {
	w := newWorld(t, 2, 1, overMem(mem.New(1, mem.Faults{}))).start()
	ctx := within(t)
	require.NoError(t, w.table(0).Send(ctx, 1, []byte("hello")))
	_, err := w.table(1).Recv(ctx)
	require.NoError(t, err)
	holdToken(w.table(1), 0)
	table := w.table(0)
	f := table.remotePeer(1)
	table.fmu.Lock()
	f.upgrade.token, f.upgrade.drain.ours = someToken, true
	f.say(ctlLeave)
	table.fmu.Unlock()
	require.Eventually(t, func() bool {
		table.fmu.Lock()
		defer table.fmu.Unlock()
		return !f.upgrade.drain.ours
	}, patience, time.Millisecond)
}

var someToken = [tokenLen]byte{7: 1}

// holdToken has a rank wait for the stream of a token.
func holdToken(t *Table, from uint32) *remotePeer {
	f := t.remotePeer(from)
	t.fmu.Lock()
	defer t.fmu.Unlock()
	f.upgrade.token = someToken
	return f
}

// What was said about a stream to an earlier epoch of a rank, and had not left
// when it ended, reaches the next one. It is not about the stream that this one has:
// messages of that would overtake datagrams.
func TestControlsAreOfOneStream(t *testing.T) {
	w := newWorld(t, 2, 1, overMem(mem.New(1, mem.Faults{}))).start()
	f := holdToken(w.table(1), 0)
	f.t.fmu.Lock()
	defer f.t.fmu.Unlock()
	for _, control := range []byte{ctlSwitch, ctlLeave, ctlStay, ctlReturned, ctlBroken} {
		f.upgrade.drain.ours = control == ctlStay
		before := f.upgrade
		for _, token := range [][]byte{nil, make([]byte, tokenLen), {7: 2}} {
			f.control(append([]byte{control}, token...))
			require.Equal(t, before, f.upgrade, "control %d of %v", control, token)
			require.NoError(t, f.dead)
		}
	}
	f.upgrade.drain.ours = false
	f.control(append([]byte{ctlSwitch}, someToken[:]...))
	require.True(t, f.upgrade.switched)
}
