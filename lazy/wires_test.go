package lazy

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/fabric"
	"ibrun/internal/job"
)

// wires returns the fabrics whose streams are not made in this process.
var wires = func() map[string]func(fabric.Sink) (fabric.Fabric, error) {
	return map[string]func(fabric.Sink) (fabric.Fabric, error){"udp": overUDP}
}

// One long message each way, at the same time.
func TestLongMessages(t *testing.T) {
	for name, open := range wires() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 2, 1, open).start()
			ctx := within(t)
			var all sync.WaitGroup
			for me := range uint32(2) {
				all.Go(func() {
					if err := w.table(me).Send(ctx, 1-me, payload(me, 1-me, 0, 9<<20)); err != nil {
						t.Error(err)
					}
				})
				all.Go(func() {
					m, err := w.table(me).Recv(ctx)
					if err != nil || !bytes.Equal(m.Body, payload(1-me, me, 0, 9<<20)) {
						t.Errorf("rank %d: %v", me, err)
					}
				})
			}
			all.Wait()
		})
	}
}

// TrySend takes what fits, and what it took arrives.
func TestTrySend(t *testing.T) {
	for name, open := range wires() {
		for _, to := range []uint32{1, 2} { // on the node, and off it
			t.Run(fmt.Sprintf("%s to %d", name, to),
				func(t *testing.T) { trySends(t, newWorld(t, 2, 2, open).start(), to) })
		}
	}
}

func trySends(t *testing.T, w *world, to uint32) {
	ctx := within(t)
	sent, full := uint32(0), 0
	for full < 3 {
		switch err := w.table(0).TrySend(to, payload(0, to, sent, 5000)); {
		case err == nil:
			sent++
		case errors.Is(err, ErrFull):
			if sent > 0 {
				full++
			}
			runtime.Gosched()
		default:
			require.NoError(t, err)
		}
	}
	for n := range sent {
		w.receives(ctx, to, payload(0, to, n, 5000))
	}
}

// A pair moves to a stream when it reaches the upgrade threshold, in the order of its messages, and
// not before.
func TestUpgradeThreshold(t *testing.T) {
	for name, open := range fabrics() {
		t.Run(name, func(t *testing.T) {
			const threshold = 16
			w := newWorld(t, 2, 1, open)
			w.config = func(c *Config) { c.Worth = worth(threshold) }
			w.start()
			ctx, n := within(t), uint32(0)
			round := func() {
				require.NoError(t, w.table(0).Send(ctx, 1, payload(0, 1, n, 100)))
				w.receives(ctx, 1, payload(0, 1, n, 100))
				n++
			}
			for range threshold - 1 {
				round()
			}
			require.Zero(t, w.table(0).Tally().Sum[job.CountStreams])
			moved := func() bool { return w.table(0).Tally().Sum[job.CountStreams] == 1 }
			for !moved() {
				round()
			}
			round() // this one moves
			before := w.table(0).Tally().Sum[job.CountDatagrams]
			for range 50 {
				round()
			}
			require.Less(t, w.table(0).Tally().Sum[job.CountDatagrams], before+25)
		})
	}
}
