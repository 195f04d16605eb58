package ib

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/cgo/verbs"
	"ibrun/fabric"
	"ibrun/test/fields"
)

// TestFieldsAreWhole sends each field of a stream's messages, of memory to be read and of the
// datagrams that make streams through the codec with a value of its own.
func TestFieldsAreWhole(t *testing.T) {
	m := message{kind: kindRelease, tag: 0x1234, consumed: 0x56789abc, body: []byte("body")}
	b := make([]byte, 64)
	parsed, ok := parseMessage(b[:m.put(b)])
	require.True(t, ok)
	require.Equal(t, m, parsed)

	said := message{kind: kindData, tag: 0x1234, consumed: 0x56789abc &^ (consumedUnit - 1), body: []byte("body")}
	for _, behind := range []uint32{0, 1, consumedUnit, mostWindow, said.consumed - 1} {
		told := withImmediate(said.immediate(), said.consumed-min(behind, mostWindow), said.body)
		require.Equal(t, said, told, behind)
	}

	g := &grant{addr: 0x0102030405060708, key: 0x090a0b0c, left: 0x0d0e0f1011121314}
	memory, ok := parseGrant(g.append(nil))
	require.True(t, ok)
	require.Equal(t, g, memory)

	tuple := fabric.Tuple{Kind: fabric.IBGID, Rails: 1, Path: 1, LID: 7, Num: 8}
	for i := range tuple.Addr {
		tuple.Addr[i] = byte(1 + i)
	}
	c := control{
		call: accept, cookie: 0x0102030405060708, nonce: 0x090a0b0c0d0e0f10, from: tuple,
		side: side{qpn: 0x111213, psn: 0x141516, window: leastWindow, tag: 0x1718, mtu: verbs.MTU1024, at: tuple},
	}
	controlled, ok := parseControl(c.append(nil))
	require.True(t, ok)
	require.Equal(t, c, controlled)
	require.Empty(t, fields.Zero(nil, parsed, *memory, controlled))
}
