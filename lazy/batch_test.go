package lazy

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/fabric"
	"ibrun/fabric/mem"
	"ibrun/internal/job"
)

// counted is a fabric that counts the calls which send.
type counted struct {
	fabric.Fabric
	calls, datagrams atomic.Int64
}

func (c *counted) Post(to fabric.Tuple, b []byte) error {
	c.calls.Add(1)
	c.datagrams.Add(1)
	return c.Fabric.Post(to, b)
}

func (c *counted) PostAll(to fabric.Tuple, b []byte, size int) error {
	c.calls.Add(1)
	for part := range slices.Chunk(b, size) {
		c.datagrams.Add(1)
		if err := c.Fabric.Post(to, part); err != nil {
			return err
		}
	}
	return nil
}

// What the window lets go of a message goes to the fabric with one call, and the message arrives.
// The window may be narrow where something had to be repeated before, as with a delay or on a busy
// machine.
func TestPacketsOfAMessageGoTogether(t *testing.T) {
	for _, delay := range []time.Duration{0, 60 * time.Millisecond} {
		n := mem.New(1, mem.Faults{Delay: delay})
		var first *counted
		w := newWorld(t, 2, 1, func(s fabric.Sink) (fabric.Fabric, error) {
			c := &counted{Fabric: n.Open(s)}
			if first == nil {
				first = c
			}
			return c, nil
		}).start()
		ctx := within(t)
		a, b := w.table(0), w.table(1)
		require.NoError(t, a.Send(ctx, 1, []byte("connects")))
		require.NoError(t, a.Flush(ctx))
		repeated := a.Tally().Sum[job.CountRetransmits] > 0
		m := payload(0, 1, 0, 8*a.mtu())
		calls, datagrams := first.calls.Load(), first.datagrams.Load()
		require.NoError(t, a.Send(ctx, 1, m))
		require.EqualValues(t, 1, first.calls.Load()-calls)
		if packets := first.datagrams.Load() - datagrams; repeated {
			require.Contains(t, []int64{3, 9}, packets)
		} else {
			require.EqualValues(t, 9, packets, "heads take room")
		}
		for _, want := range [][]byte{[]byte("connects"), m} {
			got, err := b.Recv(ctx)
			require.NoError(t, err)
			require.Equal(t, want, got.Body)
		}
	}
}
