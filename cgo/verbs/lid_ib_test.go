//go:build ib

package verbs_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/cgo/verbs"
)

// TestLIDs: a port with a LID mask is reached by each of its LIDs and sends
// from the one that path bits name; a global route has its GRH before the message.
func TestLIDs(t *testing.T) {
	needsFake(t)
	a, b := open(t, "mlx5_0"), open(t, "mlx5_1") // LIDs 932 and 933; 688
	p, q := a.datagrams(t), b.datagrams(t)
	postReceive(t, p, a.at(1, 0, 128), a.at(2, 128, 128))
	second := b.handle(t, verbs.Route{DLID: 933, Port: 1, SL: 3})
	beyond := b.handle(t, verbs.Route{DLID: 934, Port: 1})
	postSend(t, q, b.datagram(1, 0, 8, beyond, p), b.datagram(2, 0, 8, second, p))
	b.done(t, 2)
	got := a.done(t, 1)[0]
	require.Equal(t, [4]any{uint16(688), uint8(1), uint8(3), uint32(0)}, [4]any{got.LID, got.PathBits, got.SL,
		got.Flags})

	postReceive(t, q, b.at(3, 0, 128))
	global := a.handle(t, verbs.Route{DLID: 688, Port: 1, PathBits: 1, Global: true, DGID: b.gid.Addr, HopLimit: 255})
	postSend(t, p, a.datagram(4, 0, 8, global, q))
	a.done(t, 1)
	got = b.done(t, 1)[0]
	require.Equal(t, [2]any{uint16(933), verbs.HasGRH}, [2]any{got.LID, got.Flags})
	require.Equal(t, a.gid.Addr[:], b.mr.Bytes()[8:24])
	require.Equal(t, b.gid.Addr[:], b.mr.Bytes()[24:40])
}

// TestPartitions: messages stay in their partition, and two limited members of
// one do not hear each other.
func TestPartitions(t *testing.T) {
	needsFake(t)
	a, b := open(t, "mlx5_0"), open(t, "mlx5_1")
	there := a.handle(t, a.route(b))
	member := func(e *end, key uint16) *verbs.QP {
		q := e.freshQueuePair(t,
			verbs.QPConfig{Type: verbs.UD, Send: e.cq, Receive: e.cq, MaxSend: 8, MaxReceive: 8})
		require.NoError(t, q.Modify(verbs.QPState{State: verbs.Init, Port: 1, PKeyIndex: key, QKey: qkey}))
		require.NoError(t, q.Modify(verbs.QPState{State: verbs.ReadyToReceive}))
		require.NoError(t, q.Modify(verbs.QPState{State: verbs.ReadyToSend}))
		return q
	}
	const all, full, limited = 0, 1, 2 // 0xffff, 0x8001, 0x0001
	for _, c := range []struct {
		from, to uint16
		heard    bool
	}{{all, all, true}, {all, full, false}, {full, limited, true}, {limited, full, true}, {limited, limited, false}} {
		p, q := member(a, c.from), member(b, c.to)
		mark := member(a, all)
		end := member(b, all)
		postReceive(t, q, b.at(1, 0, 128))
		postReceive(t, end, b.at(2, 128, 128))
		postSend(t, p, a.datagram(1, 0, 8, there, q))
		postSend(t, mark, a.datagram(2, 0, 8, there, end)) // comes last: nothing overtakes
		a.done(t, 2)
		want := []uint64{2}
		if c.heard {
			want = []uint64{1, 2}
		}
		var ids []uint64
		for _, got := range b.done(t, len(want)) {
			ids = append(ids, got.ID)
		}
		require.Equal(t, want, ids, "%+v", c)
	}
}
