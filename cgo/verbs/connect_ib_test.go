//go:build ib

package verbs_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/cgo/verbs"
)

const qkey = 0x11223344

// toInit and its like are the steps of a connection with usual attributes.
func toInit(q *verbs.QP, kind verbs.QPType) error {
	s := verbs.QPState{State: verbs.Init, Port: 1, Access: verbs.LocalWrite | verbs.RemoteWrite | verbs.RemoteRead}
	if kind == verbs.UD {
		s.QKey = qkey
	}
	return q.Modify(s)
}

func (e *end) toReceive(q *verbs.QP, route verbs.Route, peer, psn uint32) error {
	return q.Modify(verbs.QPState{State: verbs.ReadyToReceive, Route: route, MTU: min(e.port.MTU, verbs.MTU1024),
		Peer: peer, ReceivePSN: psn,
		ReadsIn: 4, MinRNR: 1})
}

// toSend never gives up, since this machine may be busy: Retry 7 is for ever on rxe and on the
// fake.
func toSend(q *verbs.QP, psn uint32) error {
	return q.Modify(verbs.QPState{State: verbs.ReadyToSend, SendPSN: psn, Timeout: 14, Retry: 7, RNRRetry: 7,
		ReadsOut: 4})
}

// toGiveUp has short ones, for those who wait for the error: 1 ms, twice.
func toGiveUp(q *verbs.QP, psn uint32) error {
	return q.Modify(verbs.QPState{State: verbs.ReadyToSend, SendPSN: psn, Timeout: 8, Retry: 1, RNRRetry: 1,
		ReadsOut: 4})
}

// queuePair makes one in Init that is closed with the test.
func (e *end) queuePair(t testing.TB, kind verbs.QPType, change func(*verbs.QPConfig)) *verbs.QP {
	t.Helper()
	cfg := verbs.QPConfig{Type: kind, Send: e.cq, Receive: e.cq, MaxSend: 64, MaxReceive: 256, MaxInline: 64}
	if change != nil {
		change(&cfg)
	}
	q := e.freshQueuePair(t, cfg)
	require.NoError(t, toInit(q, kind))
	return q
}

// freshQueuePair returns a queue pair in state Reset and closes it at the end of the test.
func (e *end) freshQueuePair(t testing.TB, cfg verbs.QPConfig) *verbs.QP {
	t.Helper()
	q, err := e.pd.NewQP(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, q.Close()) })
	return q
}

// datagrams makes a UD queue pair that is ready.
func (e *end) datagrams(t testing.TB) *verbs.QP {
	t.Helper()
	q := e.queuePair(t, verbs.UD, nil)
	require.NoError(t, q.Modify(verbs.QPState{State: verbs.ReadyToReceive}))
	require.NoError(t, q.Modify(verbs.QPState{State: verbs.ReadyToSend, SendPSN: 7}))
	return q
}

func (e *end) handle(t testing.TB, route verbs.Route) *verbs.AH {
	t.Helper()
	a, err := e.pd.NewAH(route)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, a.Close()) })
	return a
}

// connected returns two queue pairs that are connected to each other and ready to send. If change is not
// nil, it modifies the configuration of q. The packet sequence numbers (PSNs) from p to q wrap after a few packets.
func connected(t testing.TB, a, b *end, change func(*verbs.QPConfig)) (p, q *verbs.QP) {
	t.Helper()
	const forth, back = 0xfffffe, 0x123456
	p, q = a.queuePair(t, verbs.RC, nil), b.queuePair(t, verbs.RC, change)
	require.NoError(t, a.toReceive(p, a.route(b), q.Number(), back))
	require.NoError(t, b.toReceive(q, b.route(a), p.Number(), forth))
	require.NoError(t, toSend(p, forth))
	require.NoError(t, toSend(q, back))
	return p, q
}

func postSend(t testing.TB, q *verbs.QP, batch ...verbs.Send) {
	t.Helper()
	n, err := q.PostSend(batch)
	require.NoError(t, err)
	require.Equal(t, len(batch), n)
}

func postReceive(t testing.TB, q *verbs.QP, batch ...verbs.Receive) {
	t.Helper()
	n, err := q.PostReceive(batch)
	require.NoError(t, err)
	require.Equal(t, len(batch), n)
}

// send is a signaled send of a piece of the end's memory.
func (e *end) send(id uint64, offset, size int) verbs.Send {
	return verbs.Send{ID: id, Addr: e.mr.Addr() + uint64(offset), Length: uint32(size), LKey: e.mr.LKey(),
		Op: verbs.OpSend, Flags: verbs.Signaled}
}

// fill writes a pattern that is another for each seed.
func fill(b []byte, seed int) {
	for i := range b {
		b[i] = byte(i*7 + i>>8*13 + seed)
	}
}
