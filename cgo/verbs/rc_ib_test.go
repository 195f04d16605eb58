//go:build ib

package verbs_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/cgo/verbs"
)

func TestConnectedPingPong(t *testing.T) {
	pairs(t, func(t *testing.T, first, second string) {
		a, b := open(t, first), open(t, second)
		p, q := connected(t, a, b, nil)
		state, err := p.State()
		require.NoError(t, err)
		require.Equal(t, verbs.ReadyToSend, state.State)
		require.Equal(t, q.Number(), state.Peer)
		for i, size := range []int{0, 1, 1024, 1025, 100_000, 1 << 20} {
			fill(a.mr.Bytes()[:size], i)
			postReceive(t, q, b.at(100, 0, 1<<20))
			postReceive(t, p, a.at(200, 2<<20, 1<<20))
			postSend(t, p, a.send(1, 0, size))
			sent := a.done(t, 1)[0]
			require.Equal(t, verbs.Success, sent.Status, sent.Status.String())
			require.Equal(t, verbs.DoneSend, sent.Op)
			got := b.done(t, 1)[0]
			require.Equal(t, verbs.Success, got.Status)
			require.Equal(t, uint64(100), got.ID)
			require.Equal(t, uint32(size), got.Length)
			require.True(t, bytes.Equal(a.mr.Bytes()[:size], b.mr.Bytes()[:size]))

			echo := b.send(2, 0, size)
			echo.Op, echo.Imm = verbs.OpSendImm, 77
			postSend(t, q, echo)
			require.Equal(t, uint64(2), b.done(t, 1)[0].ID)
			got = a.done(t, 1)[0]
			require.Equal(t, uint64(200), got.ID)
			require.Equal(t, uint32(77), got.Imm)
			require.True(t, bytes.Equal(a.mr.Bytes()[:size], a.mr.Bytes()[2<<20:][:size]))
		}
	})
}

func TestRemoteMemory(t *testing.T) {
	pairs(t, func(t *testing.T, first, second string) {
		a, b := open(t, first), open(t, second)
		p, q := connected(t, a, b, nil)
		for i, size := range []int{1, 1024, 5000, 1 << 20} {
			fill(a.mr.Bytes()[:size], i)
			clear(b.mr.Bytes())
			write := a.send(1, 0, size)
			write.Op, write.RemoteAddr, write.RKey = verbs.OpWrite, b.mr.Addr()+64, b.mr.RKey()
			read := a.send(2, 2<<20, size)
			read.Op, read.RemoteAddr, read.RKey = verbs.OpRead, b.mr.Addr()+64, b.mr.RKey()
			tell := a.send(3, 0, 1)
			tell.Op, tell.RemoteAddr, tell.RKey, tell.Imm = verbs.OpWriteImm, b.mr.Addr(), b.mr.RKey(), 9
			postReceive(t, q, b.at(100, 3<<20, 0))
			postSend(t, p, write, read, tell)
			got := a.done(t, 3)
			for j, op := range []verbs.Done{verbs.DoneWrite, verbs.DoneRead, verbs.DoneWrite} {
				require.Equal(t, verbs.Success, got[j].Status, got[j].Status.String())
				require.Equal(t, op, got[j].Op)
				require.Equal(t, uint64(j+1), got[j].ID)
			}
			told := b.done(t, 1)[0] // and nothing of the write and the read
			require.Equal(t, verbs.DoneReceiveImm, told.Op)
			require.Equal(t, uint32(9), told.Imm)
			require.True(t, bytes.Equal(a.mr.Bytes()[:size], b.mr.Bytes()[64:][:size]))
			require.True(t, bytes.Equal(a.mr.Bytes()[:size], a.mr.Bytes()[2<<20:][:size]))
		}
	})
}

func TestRemoteMemoryIsGuarded(t *testing.T) {
	pairs(t, func(t *testing.T, first, second string) {
		for name, spoil := range map[string]func(*verbs.Send, *end){
			"key":    func(s *verbs.Send, b *end) { s.RKey ^= 0x5a5a00 },
			"bounds": func(s *verbs.Send, b *end) { s.RemoteAddr = b.mr.Addr() + endMemory - 8 },
		} {
			t.Run(name, func(t *testing.T) {
				a, b := open(t, first), open(t, second)
				p, _ := connected(t, a, b, nil)
				write := a.send(1, 0, 64)
				write.Op, write.RemoteAddr, write.RKey = verbs.OpWrite, b.mr.Addr(), b.mr.RKey()
				spoil(&write, b)
				postSend(t, p, write, a.send(2, 0, 8))
				got := a.done(t, 2)
				require.Equal(t, verbs.RemoteAccess, got[0].Status, got[0].Status.String())
				require.Equal(t, verbs.Flushed, got[1].Status, got[1].Status.String())
				state, err := p.State()
				require.NoError(t, err)
				require.Equal(t, verbs.Failed, state.State)
			})
		}
	})
}

func TestSharedQueue(t *testing.T) {
	pairs(t, func(t *testing.T, first, second string) {
		const n = 40
		a, b := open(t, first), open(t, second)
		shared, err := b.pd.NewSRQ(n)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, shared.Close()) })
		require.GreaterOrEqual(t, shared.Size(), n)
		var receives []verbs.Receive
		for i := range n {
			receives = append(receives, b.at(uint64(i), i*64, 64))
		}
		posted, err := shared.Post(receives)
		require.NoError(t, err)
		require.Equal(t, n, posted)

		mine := func(cfg *verbs.QPConfig) { cfg.Shared = shared }
		var from [2]*verbs.QP
		for i := range from {
			from[i], _ = connected(t, a, b, mine)
		}
		for i := range n {
			postSend(t, from[i%2], a.send(uint64(i), 0, 8))
		}
		a.done(t, n)
		byQueue := map[uint32]int{}
		for _, c := range b.done(t, n) {
			require.Equal(t, verbs.Success, c.Status)
			byQueue[c.QPN]++
		}
		require.Len(t, byQueue, 2)
	})
}

// TestNobodyListens: what is sent to a peer that is not ready, is not there or
// expects other numbers ends with an error, after the time-outs.
func TestNobodyListens(t *testing.T) {
	pairs(t, func(t *testing.T, first, second string) {
		a, b := open(t, first), open(t, second)
		for name, prepare := range map[string]func(p, q *verbs.QP) error{
			"not ready": func(p, q *verbs.QP) error { return nil },
			"wrong PSN": func(p, q *verbs.QP) error { return b.toReceive(q, b.route(a), p.Number(), 500) },
			"closed":    func(p, q *verbs.QP) error { return q.Close() },
		} {
			t.Run(name, func(t *testing.T) {
				p, q := a.queuePair(t, verbs.RC, nil), b.queuePair(t, verbs.RC, nil)
				postReceive(t, q, b.at(1, 0, 64))
				require.NoError(t, a.toReceive(p, a.route(b), q.Number(), 0))
				require.NoError(t, prepare(p, q))
				require.NoError(t, toGiveUp(p, 9000))
				postSend(t, p, a.send(1, 0, 8), a.send(2, 0, 8))
				got := a.done(t, 2)
				require.Equal(t, verbs.RetryExceeded, got[0].Status, got[0].Status.String())
				require.Equal(t, verbs.Flushed, got[1].Status, got[1].Status.String())
			})
		}
	})
}

// TestReceiverBecomesReadyAfterTheSend: data sent before the peer is ready to receive is not lost
// for good.
func TestReceiverBecomesReadyAfterTheSend(t *testing.T) {
	pairs(t, func(t *testing.T, first, second string) {
		a, b := open(t, first), open(t, second)
		p, q := a.queuePair(t, verbs.RC, nil), b.queuePair(t, verbs.RC, nil)
		postReceive(t, q, b.at(1, 0, 64)) // in Init
		require.NoError(t, a.toReceive(p, a.route(b), q.Number(), 0))
		require.NoError(t, toSend(p, 11))
		postSend(t, p, a.send(1, 0, 8))
		n, err := a.cq.Poll(make([]verbs.Completion, 1))
		require.NoError(t, err)
		require.Zero(t, n)
		require.NoError(t, b.toReceive(q, b.route(a), p.Number(), 11))
		require.Equal(t, verbs.Success, a.done(t, 1)[0].Status)
		require.Equal(t, uint64(1), b.done(t, 1)[0].ID)
	})
}

func TestNoReceives(t *testing.T) {
	pairs(t, func(t *testing.T, first, second string) {
		a, b := open(t, first), open(t, second)
		p, q := a.queuePair(t, verbs.RC, nil), b.queuePair(t, verbs.RC, nil)
		require.NoError(t, a.toReceive(p, a.route(b), q.Number(), 0))
		require.NoError(t, b.toReceive(q, b.route(a), p.Number(), 1))
		require.NoError(t, p.Modify(verbs.QPState{State: verbs.ReadyToSend, SendPSN: 1, Timeout: 14, Retry: 7,
			RNRRetry: 2}))
		postSend(t, p, a.send(1, 0, 8))
		got := a.done(t, 1)[0]
		require.Equal(t, verbs.NotReady, got.Status, got.Status.String())
	})
}

func TestTooLongForTheReceive(t *testing.T) {
	pairs(t, func(t *testing.T, first, second string) {
		a, b := open(t, first), open(t, second)
		p, q := connected(t, a, b, nil)
		postReceive(t, q, b.at(7, 0, 16))
		postSend(t, p, a.send(1, 0, 17))
		got := a.done(t, 1)[0]
		require.Contains(t, []verbs.Status{verbs.RemoteInvalid, verbs.RemoteOperation}, got.Status, got.Status.String())
		got = b.done(t, 1)[0]
		require.Equal(t, uint64(7), got.ID)
		require.Contains(t, []verbs.Status{verbs.LocalLength, verbs.LocalQP}, got.Status, got.Status.String())
	})
}

// TestFlush: a queue pair that is moved to Failed gives back all that is posted.
func TestFlush(t *testing.T) {
	pairs(t, func(t *testing.T, first, second string) {
		a, b := open(t, first), open(t, second)
		p, q := connected(t, a, b, nil)
		postReceive(t, q, b.at(1, 0, 64), b.at(2, 64, 64), b.at(3, 128, 64))
		postSend(t, p, a.send(9, 0, 8))
		require.Equal(t, verbs.Success, a.done(t, 1)[0].Status)
		require.Equal(t, uint64(1), b.done(t, 1)[0].ID)
		require.NoError(t, q.Modify(verbs.QPState{State: verbs.Failed}))
		postSend(t, q, b.send(4, 0, 8))
		ids := map[uint64]verbs.Status{}
		for _, c := range b.done(t, 3) {
			ids[c.ID] = c.Status
		}
		require.Equal(t, map[uint64]verbs.Status{2: verbs.Flushed, 3: verbs.Flushed, 4: verbs.Flushed}, ids)
	})
}
