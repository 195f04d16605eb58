//go:build ib

package verbs_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/cgo/verbs"
)

// TestWaiting: a wait ends at its deadline and with its channel, and one event
// is made for one arming.
func TestWaiting(t *testing.T) {
	pairs(t, func(t *testing.T, first, second string) {
		a, b := open(t, first), open(t, second)
		p, q, there := a.datagrams(t), b.datagrams(t), a.handle(t, a.route(b))
		cookies := make([]uint64, 4)
		require.NoError(t, b.channel.SetDeadline(time.Now().Add(5*time.Millisecond)))
		_, err := b.channel.Wait(cookies, 0)
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)

		postReceive(t, q, b.at(1, 0, 128), b.at(2, 128, 128))
		require.NoError(t, b.cq.Arm())
		postSend(t, p, a.datagram(1, 0, 8, there, q), a.datagram(2, 0, 8, there, q))
		a.done(t, 2)
		require.NoError(t, b.channel.SetDeadline(time.Now().Add(patience)))
		n, err := b.channel.Wait(cookies, 0)
		require.NoError(t, err)
		require.Equal(t, []uint64{cookie}, cookies[:n])
		b.done(t, 2)

		ch, err := a.ctx.NewChannel()
		require.NoError(t, err)
		ended := make(chan error)
		go func() {
			_, err := ch.Wait(make([]uint64, 1), 0)
			ended <- err
		}()
		require.NoError(t, ch.Close())
		require.ErrorIs(t, <-ended, os.ErrClosed)
	})
}

// TestNext: what an event is of is taken with it, and the next completion makes the next event.
func TestNext(t *testing.T) {
	pairs(t, func(t *testing.T, first, second string) {
		a, b := open(t, first), open(t, second)
		p, q, there := a.datagrams(t), b.datagrams(t), a.handle(t, a.route(b))
		require.NoError(t, b.cq.Arm())
		require.NoError(t, b.channel.SetDeadline(time.Now().Add(patience)))
		out := make([]verbs.Completion, 4)
		for i := range uint64(100) {
			postReceive(t, q, b.at(i, 0, 128))
			postSend(t, p, a.datagram(i, 0, 8, there, q))
			from, n, err := b.channel.Next(out, time.Millisecond)
			require.NoError(t, err)
			require.Equal(t, uint64(cookie), from)
			require.Equal(t, 1, n)
			require.Equal(t, i, out[0].ID)
			a.done(t, 1)
		}
		require.NoError(t, b.channel.SetDeadline(time.Now().Add(5*time.Millisecond)))
		_, _, err := b.channel.Next(out, time.Millisecond)
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	})
}

// TestUnpolled: a queue closes though events and completions are left in it.
func TestUnpolled(t *testing.T) {
	pairs(t, func(t *testing.T, first, second string) {
		a, b := open(t, first), open(t, second)
		p, q, there := a.datagrams(t), b.datagrams(t), a.handle(t, a.route(b))
		require.NoError(t, a.cq.Arm())
		require.NoError(t, b.cq.Arm())
		postReceive(t, q, b.at(1, 0, 128))
		postSend(t, p, a.datagram(1, 0, 8, there, q))
		require.NoError(t, b.channel.SetDeadline(time.Now().Add(patience)))
		_, err := b.channel.Wait(make([]uint64, 1), 0)
		require.NoError(t, err)
	})
}

func TestEvents(t *testing.T) {
	needsFake(t)
	e := open(t, "mlx5_1")
	q := e.queuePair(t, verbs.RC, nil)
	postReceive(t, q, e.at(1, 0, 64))
	next := func() verbs.Event {
		t.Helper()
		require.NoError(t, e.ctx.SetEventDeadline(time.Now().Add(patience)))
		event, err := e.ctx.Event()
		require.NoError(t, err)
		return event
	}
	state := func() verbs.PortState {
		t.Helper()
		port, err := e.ctx.Port(1)
		require.NoError(t, err)
		return port.State
	}
	order := func(words string) {
		t.Helper()
		answers, err := network.Order(words)
		require.NoError(t, err)
		require.Len(t, answers, 1)
		require.Equal(t, 1, answers[0]["qp"])
	}
	require.NoError(t, e.ctx.SetEventDeadline(time.Now().Add(time.Millisecond)))
	_, err := e.ctx.Event()
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)

	order("port mlx5_1 1 down")
	require.Equal(t, verbs.Event{Type: verbs.EventPortError, Port: 1}, next())
	require.Equal(t, verbs.PortDown, state())
	order("port mlx5_1 1 active")
	require.Equal(t, verbs.Event{Type: verbs.EventPortActive, Port: 1}, next())
	require.Equal(t, verbs.PortActive, state())
	order(fmt.Sprintf("qp mlx5_1 %d", q.Number()))
	require.Equal(t, verbs.Event{Type: verbs.EventQPFatal, QPN: q.Number()}, next())
	require.Equal(t, verbs.Flushed, e.done(t, 1)[0].Status)
	order("fatal mlx5_1")
	require.Equal(t, verbs.Event{Type: verbs.EventDeviceFatal}, next())
	_, err = e.pd.NewQP(verbs.QPConfig{Type: verbs.RC, Send: e.cq, Receive: e.cq, MaxSend: 1, MaxReceive: 1})
	require.Error(t, err)
}

// TestPortDown: what is sent over a port that is down is lost, and goes on when
// it is active again.
func TestPortDown(t *testing.T) {
	needsFake(t)
	a, b := open(t, "mlx5_0"), open(t, "mlx5_1")
	p, q := connected(t, a, b, nil)
	_, err := network.Order("port mlx5_1 1 down")
	require.NoError(t, err)
	postReceive(t, q, b.at(1, 0, 64))
	postSend(t, p, a.send(1, 0, 8))
	_, err = network.Order("port mlx5_1 1 active")
	require.NoError(t, err)
	require.Equal(t, verbs.Success, a.done(t, 1)[0].Status)
	require.Equal(t, uint64(1), b.done(t, 1)[0].ID)
}

// TestOverrun: a completion queue that is too small fails with an event.
func TestOverrun(t *testing.T) {
	needsFake(t)
	e := open(t, "mlx5_0")
	small, err := e.ctx.NewCQ(2, nil, 55)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, small.Close()) })
	q := e.queuePair(t, verbs.UD, func(cfg *verbs.QPConfig) { cfg.Receive = small })
	postReceive(t, q, e.at(1, 0, 64), e.at(2, 0, 64), e.at(3, 0, 64))
	require.NoError(t, q.Modify(verbs.QPState{State: verbs.Failed}))
	event, err := e.ctx.Event()
	require.NoError(t, err)
	require.Equal(t, verbs.Event{Type: verbs.EventCQError, Cookie: 55}, event)
}
