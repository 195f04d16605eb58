package lazy

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/fabric"
	"ibrun/fabric/mem"
	"ibrun/test/waitfor"
)

// onDemandWorld is ranks that open when they must; opened counts.
func onDemandWorld(t *testing.T, nodes, perNode uint32, open func(
	fabric.Sink) (fabric.Fabric, error)) (w *world, opened *atomic.Int32) {
	opened = &atomic.Int32{}
	w = newWorld(t, nodes, perNode, open)
	w.later = map[uint32]bool{}
	for r := range nodes * perNode {
		w.later[r] = true
	}
	w.config = func(c *Config) {
		c.Opened = func(tuple fabric.Tuple) {
			opened.Add(1)
			require.NotEqual(t, fabric.NONE, tuple.Kind)
		}
	}
	return w.start(), opened
}

// Only ranks that talk off their node open the fabric: the one that sends, and
// the one that it sends to.
func TestOpenedWhenNeeded(t *testing.T) {
	w, opened := onDemandWorld(t, 2, 2, overMem(mem.New(1, mem.Faults{})))
	ctx := within(t)
	require.NoError(t, w.table(0).Send(ctx, 1, []byte("near")))
	_, err := w.table(1).Recv(ctx)
	require.NoError(t, err)
	require.Zero(t, opened.Load(), "a rank of the same node needs no fabric")
	require.Equal(t, fabric.NONE, w.table(0).Tuple().Kind)
	require.NoError(t, w.table(0).Send(ctx, 3, []byte("far")))
	m, err := w.table(3).Recv(ctx)
	require.NoError(t, err)
	require.Equal(t, Message{0, []byte("far")}, m)
	require.EqualValues(t, 2, opened.Load())
	require.NoError(t, w.table(3).Send(ctx, 0, []byte("back")))
	_, err = w.table(0).RecvFrom(ctx, 3)
	require.NoError(t, err)
	require.EqualValues(t, 2, opened.Load())
	require.NoError(t, w.table(2).Warm(1))
	waitfor.Require(t, "4 fabrics are open", func() bool { return opened.Load() == 4 })
}

// What cannot be opened is said to who sends, and again each time.
func TestCannotBeOpened(t *testing.T) {
	cause := errors.New("no device")
	w, _ := onDemandWorld(t, 2, 1, func(fabric.Sink) (fabric.Fabric, error) { return nil, cause })
	for range 2 {
		err := w.table(0).Send(within(t), 1, nil)
		require.ErrorIs(t, err, cause)
		require.EqualError(t, err, "rank 1: no device")
	}
	require.ErrorIs(t, w.table(0).TrySend(1, nil), cause)
	_, err := w.table(0).RecvFrom(within(t), 1)
	require.ErrorIs(t, err, cause)
	said := make(chan error, 1)
	w.table(1).Wanted(func(err error) { said <- err })
	require.Equal(t, cause, <-said)
	w.table(0).Close()
	require.ErrorIs(t, w.table(0).Send(within(t), 1, nil), ErrClosed)
}

// A table that is closed opens nothing any more.
func TestClosedBeforeItIsOpened(t *testing.T) {
	w, opened := onDemandWorld(t, 2, 1, overMem(mem.New(1, mem.Faults{})))
	require.NoError(t, w.table(0).Close())
	require.ErrorIs(t, w.table(0).Reach(), ErrClosed)
	w.table(0).Wanted(func(err error) { require.NoError(t, err) })
	require.Zero(t, opened.Load())
}

// Who only receives is told that what it sent before was lost: the peer may be
// waiting for that.
func TestLostMessagesAreReportedToReceivers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2, 1, overMem(mem.New(1, mem.Faults{Loss: 1}))).start()
		ctx := context.Background()
		require.NoError(t, w.table(0).Send(ctx, 1, []byte("into the void")))
		_, err := w.table(0).Recv(ctx)
		require.EqualError(t, err, "rank 1: no answer for 30 s, although it runs")
		short, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		_, err = w.table(0).Recv(short)
		require.ErrorIs(t, err, context.DeadlineExceeded, "told once")
	})
}

// deaf is a fabric that cannot send.
type deaf struct{ fabric.Fabric }

func (deaf) Post(fabric.Tuple, []byte) error { return errors.New("the port is down") }

func TestBrokenDevicesAreReportedToReceivers(t *testing.T) {
	n := mem.New(1, mem.Faults{})
	w := newWorld(t, 2, 1, func(s fabric.Sink) (fabric.Fabric, error) {
		return deaf{n.Open(s)}, nil
	}).start()
	require.NoError(t, w.table(0).Send(within(t), 1, []byte("into the void")))
	_, err := w.table(0).Recv(within(t))
	require.EqualError(t, err, "rank 1: the port is down")
}

// A peer that stands still, stopped or frozen with its node, is waited for. Its agent is asked once
// for each sender, and for each receiver that waits for it.
func TestStoppedPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := mem.New(1, mem.Faults{Delay: time.Millisecond})
		w := newWorld(t, 2, 1, overMem(n)).start()
		ctx, from, to := context.Background(), w.table(0), w.table(1)
		require.NoError(t, from.Send(ctx, 1, payload(0, 1, 0, 10)))
		_, err := to.Recv(ctx)
		require.NoError(t, err)
		require.NoError(t, from.Flush(ctx))
		asks, runs := w.asks, make(chan struct{})
		w.stopped = map[uint32]chan struct{}{1: runs}
		n.Isolate(to.Tuple(), true)
		for n := range uint32(20) {
			require.NoError(t, from.Send(ctx, 1, payload(0, 1, 1+n, 1000)))
		}
		got := make(chan error, 1)
		go func() {
			_, err := from.RecvFrom(ctx, 1)
			got <- err
		}()
		<-time.After(10 * time.Minute)
		require.Equal(t, asks+1, w.asks)
		n.Isolate(to.Tuple(), false)
		w.mu.Lock()
		w.stopped = nil
		w.mu.Unlock()
		close(runs)
		for n := range uint32(20) {
			m, err := to.Recv(ctx)
			require.NoError(t, err)
			require.Equal(t, payload(0, 1, 1+n, 1000), m.Body)
		}
		require.NoError(t, to.Send(ctx, 0, []byte("here")))
		require.NoError(t, <-got)
		require.NoError(t, from.Flush(ctx))
	})
}
