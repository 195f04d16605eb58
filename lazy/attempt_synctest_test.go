package lazy

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/fabric"
	"ibrun/fabric/mem"
	"ibrun/internal/job"
	"ibrun/lazy/peer"
)

// filtered is a fabric whose first few dials fail.
type filtered struct {
	fabric.Fabric
	left *atomic.Int32
}

var errFiltered = errors.New("the port is filtered")

func (f filtered) Dial(ctx context.Context, to fabric.Tuple, offer []byte) (fabric.Stream, error) {
	if f.left.Add(-1) >= 0 {
		return nil, errFiltered
	}
	return f.Fabric.Dial(ctx, to, offer)
}

// A stream whose first dial fails is tried once more. If that fails too, long messages are refused
// with the cause, by either side, and short ones arrive; the next connection of the pair tries
// again.
func TestStreamsAreTriedTwice(t *testing.T) {
	for _, c := range []struct {
		fail int32
		from uint32
	}{{1, 0}, {1, 1}, {2, 0}, {2, 1}} {
		synctest.Test(t, func(t *testing.T) {
			n := mem.New(1, mem.Faults{})
			var left atomic.Int32
			left.Store(c.fail)
			w := newWorld(t, 2, 1,
				func(s fabric.Sink) (fabric.Fabric, error) { return filtered{n.Open(s), &left}, nil }).start()
			ctx, from, to := within(t), c.from, 1-c.from
			table := w.table(from)
			long := func() error { return table.Send(ctx, to, payload(from, to, 0, 1<<20)) }
			arrives := func() {
				w.receives(ctx, to, payload(from, to, 0, 1<<20))
				require.Equal(t, uint64(1), table.Tally().Sum[job.CountMoves])
			}
			if c.fail == 1 {
				require.NoError(t, long())
				arrives()
				return
			}
			why := errFiltered.Error()
			if from == 1 { // which is dialled
				why = "the other side could not: " + why
			}
			require.ErrorContains(t, long(), "a message of 1048588 bytes needs a stream, and none could be made: "+why)
			require.NoError(t, table.Send(ctx, to, payload(from, to, 1, 100)))
			w.receives(ctx, to, payload(from, to, 1, 100))
			require.NoError(t, table.Flush(ctx))
			table.fmu.Lock()
			table.step(table.remotePeer(to), peer.Event{Kind: peer.Rest})
			table.fmu.Unlock()
			synctest.Wait()
			require.NoError(t, long())
			arrives()
		})
	}
}

// halting is a fabric whose rank stands still when it has dialled, and then finds its time out for
// so many waits.
type halting struct {
	fabric.Fabric
	dials *atomic.Int32
	waits int32
}

func (f halting) Dial(ctx context.Context, to fabric.Tuple, offer []byte) (fabric.Stream, error) {
	s, err := f.Fabric.Dial(ctx, to, offer)
	if f.dials.Add(1) == 1 && err == nil {
		return &haltingStream{Stream: s, left: f.waits}, nil
	}
	return s, err
}

type haltingStream struct {
	fabric.Stream
	left int32
}

func (s *haltingStream) Read(b []byte) (int, error) {
	if s.left == 0 {
		return s.Stream.Read(b)
	}
	s.left--
	synctest.Wait() // meanwhile the other rank does all that it can
	return 0, os.ErrDeadlineExceeded
}

// A rank that is stopped while it dials takes the proof that has come meanwhile. If it gives up all
// the same, the other rank has proved itself already, and nothing that it sends is lost.
func TestStoppedDialler(t *testing.T) {
	for _, c := range []struct{ waits, dials int32 }{{0, 1}, {1, 1}, {helloWaits, 2}} {
		synctest.Test(t, func(t *testing.T) {
			n := mem.New(1, mem.Faults{})
			var dials atomic.Int32
			w := newWorld(t, 2, 1, func(s fabric.Sink) (fabric.Fabric, error) {
				return halting{n.Open(s), &dials, c.waits}, nil
			}).start()
			ctx := within(t)
			for i := range uint32(3) {
				require.NoError(t, w.table(1).Send(ctx, 0, payload(1, 0, i, 1<<20)))
			}
			for i := range uint32(3) {
				w.receives(ctx, 0, payload(1, 0, i, 1<<20))
			}
			require.Equal(t, c.dials, dials.Load())
		})
	}
}

// A message that just fits the window does not fit any more when WANT or OFFER went before it: it
// waits, and is not lost.
func TestAskingTakesRoom(t *testing.T) {
	for from := range uint32(2) { // rank 0 says WANT, rank 1 OFFER
		synctest.Test(t, func(t *testing.T) {
			const count = 61 // of 1,000 bytes leave room for one of 568
			w := newWorld(t, 2, 1, overMem(mem.New(1, mem.Faults{Delay: time.Millisecond})))
			w.config = func(c *Config) { c.Worth = worth(count + 1) }
			ctx, table, to := within(t), w.start().table(from), 1-from
			require.NoError(t, table.Send(ctx, to, []byte("hello")))
			require.NoError(t, table.Flush(ctx))
			for range count {
				require.NoError(t, table.TrySend(to, make([]byte, 1000)))
			}
			require.ErrorIs(t, table.TrySend(to, make([]byte, 560)), ErrFull)
			require.NoError(t, table.Send(ctx, to, make([]byte, 560)))
			require.NoError(t, table.Flush(ctx))
			for _, size := range append(append([]int{5}, slices.Repeat([]int{1000}, count)...), 560) {
				m, err := w.table(to).Recv(ctx)
				require.NoError(t, err)
				require.Len(t, m.Body, size)
			}
		})
	}
}
