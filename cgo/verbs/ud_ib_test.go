//go:build ib

package verbs_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/cgo/verbs"
)

// datagram is a UD send of a piece of the end's memory.
func (e *end) datagram(id uint64, offset, size int, to *verbs.AH, q *verbs.QP) verbs.Send {
	s := e.send(id, offset, size)
	s.AH, s.QPN, s.QKey = to.Ref(), q.Number(), qkey
	return s
}

func TestDatagramPingPong(t *testing.T) {
	pairs(t, func(t *testing.T, first, second string) {
		a, b := open(t, first), open(t, second)
		p, q := a.datagrams(t), b.datagrams(t)
		there, back := a.handle(t, a.route(b)), b.handle(t, b.route(a))
		for i, size := range []int{1, 64, 1000, a.port.MTU.Bytes()} {
			fill(a.mr.Bytes()[:size], i)
			clear(b.mr.Bytes()[:8192])
			postReceive(t, q, b.at(100, 0, size+verbs.GRHSize))
			postReceive(t, p, a.at(200, 8192, size+verbs.GRHSize))
			ping := a.datagram(1, 0, size, there, q)
			ping.Op, ping.Imm = verbs.OpSendImm, 0xcafe0000+uint32(i)
			postSend(t, p, ping)
			require.Equal(t, uint64(1), a.done(t, 1)[0].ID)

			got := b.done(t, 1)[0]
			require.Equal(t, verbs.Success, got.Status)
			require.Equal(t, verbs.DoneReceive, got.Op)
			require.Equal(t, uint64(100), got.ID)
			require.Equal(t, uint32(size+verbs.GRHSize), got.Length)
			require.Equal(t, q.Number(), got.QPN)
			require.Equal(t, p.Number(), got.Source)
			require.Equal(t, verbs.HasImm, got.Flags&verbs.HasImm)
			require.Equal(t, ping.Imm, got.Imm)
			require.Equal(t, b.port.Link == verbs.LinkEthernet, got.Flags&verbs.HasGRH != 0)
			require.Equal(t, a.port.LID, got.LID)
			require.True(t, bytes.Equal(a.mr.Bytes()[:size], b.mr.Bytes()[verbs.GRHSize:][:size]))

			postSend(t, q, b.datagram(2, verbs.GRHSize, size, back, p))
			require.Equal(t, uint64(2), b.done(t, 1)[0].ID)
			require.Equal(t, uint64(200), a.done(t, 1)[0].ID)
			require.True(t, bytes.Equal(a.mr.Bytes()[:size], a.mr.Bytes()[8192+verbs.GRHSize:][:size]))
		}
	})
}

// TestDatagramBatch posts more than the shim turns at a time.
func TestDatagramBatch(t *testing.T) {
	pairs(t, func(t *testing.T, first, second string) {
		const n = 50
		a, b := open(t, first), open(t, second)
		p, q, there := a.datagrams(t), b.datagrams(t), a.handle(t, a.route(b))
		var receives []verbs.Receive
		var sends []verbs.Send
		for i := range n {
			receives = append(receives, b.at(uint64(i), i*128, 128))
			fill(a.mr.Bytes()[i*64:][:64], i)
			sends = append(sends, a.datagram(uint64(i), i*64, 64, there, q))
			if i%2 == 1 {
				sends[i].Flags |= verbs.Inline
				sends[i].LKey = 0
			}
			if i < n-1 {
				sends[i].Flags &^= verbs.Signaled
			}
		}
		postReceive(t, q, receives...)
		postSend(t, p, sends...)
		clear(a.mr.Bytes()[64:128]) // inline: copied already
		require.Equal(t, uint64(n-1), a.done(t, 1)[0].ID)
		want := make([]byte, 64)
		for i, c := range b.done(t, n) {
			require.Equal(t, uint64(i), c.ID)
			require.Equal(t, verbs.Success, c.Status)
			fill(want, i)
			require.True(t, bytes.Equal(want, b.mr.Bytes()[i*128+verbs.GRHSize:][:64]), "message %d", i)
		}
	})
}

// TestDatagramsNotForMe sends what nobody takes, then something that arrives:
// the former is gone, as nothing overtakes here.
func TestDatagramsNotForMe(t *testing.T) {
	pairs(t, func(t *testing.T, first, second string) {
		a, b := open(t, first), open(t, second)
		p, q, there := a.datagrams(t), b.datagrams(t), a.handle(t, a.route(b))
		postReceive(t, q, b.at(1, 0, 256), b.at(2, 256, 256))
		wrongKey, noQueue, right := a.datagram(1, 0, 64, there, q), a.datagram(2, 0, 64, there, q), a.datagram(3, 0, 64,
			there, q)
		wrongKey.QKey++
		noQueue.QPN ^= 0x800000
		postSend(t, p, wrongKey, noQueue, right)
		require.Len(t, a.done(t, 3), 3)
		require.Equal(t, uint64(1), b.done(t, 1)[0].ID)
	})
}

// TestDatagramTooLong: a message longer than the MTU is said to be sent and is not, as on rxe; one
// that is longer than its receive ends the queue pair.
func TestDatagramTooLong(t *testing.T) {
	pairs(t, func(t *testing.T, first, second string) {
		a, b := open(t, first), open(t, second)
		p, q, there := a.datagrams(t), b.datagrams(t), a.handle(t, a.route(b))
		postReceive(t, q, b.at(1, 0, 8192), b.at(2, 0, 8+verbs.GRHSize-1), b.at(3, 0, 128))
		postSend(t, p, a.datagram(1, 0, a.port.MTU.Bytes()+1, there, q), a.datagram(2, 0, 8, there, q),
			a.datagram(3, 0, 8, there, q))
		for _, c := range a.done(t, 3) {
			require.Equal(t, verbs.Success, c.Status)
		}
		got := b.done(t, 3)
		require.Equal(t, verbs.Success, got[0].Status)
		require.Equal(t, uint32(8+verbs.GRHSize), got[0].Length)
		require.Equal(t, uint64(2), got[1].ID)
		require.Contains(t, []verbs.Status{verbs.LocalLength, verbs.LocalQP}, got[1].Status, got[1].Status.String())
		require.Equal(t, verbs.Flushed, got[2].Status)
		state, err := q.State()
		require.NoError(t, err)
		require.Equal(t, verbs.Failed, state.State)
	})
}
