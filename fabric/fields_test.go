package fabric

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/test/fields"
)

// kindFields are the fields of a tuple besides its kind, rails and path: those that its kind has.
var kindFields = map[Kind][]string{
	ETH4: {"Addr", "Num"}, ETH6: {"Addr", "Num"}, IB: {"LID", "Num"}, ROCE4: {"Addr", "Num"}, ROCE6: {"Addr", "Num"},
	IBGID: {"LID", "Addr", "Num"}, NONE: {},
}

// TestFieldsAreWhole sends each field of tuples, blocks and envelopes through the codec with a
// value of its own: a field that is dropped on both sides is zero afterwards.
func TestFieldsAreWhole(t *testing.T) {
	addr := [16]byte{}
	for i := range addr {
		addr[i] = byte(1 + i)
	}
	var parsed []any
	for kind := range kinds {
		tuple := Tuple{Kind: kind, Rails: 2, Path: 1}
		for _, field := range kindFields[kind] {
			switch field {
			case "LID":
				tuple.LID = 0x1234
			case "Num":
				tuple.Num = 0x5678
			case "Addr":
				copy(tuple.Addr[:], addr[:kindParts[kind].addr])
			}
		}
		got, _, err := ParseTuple(tuple.Append(nil))
		require.NoError(t, err)
		require.Equal(t, tuple, got, "all that a tuple of kind %v has", kind)
		parsed = append(parsed, got)

		block := &Block{
			Node: 0x1020304, First: 0x5060708, TTL: 9, Base: tuple, More: []Tuple{tuple},
			Ranks: []Entry{{Epoch: 0x0a0b, Num: tuple.Num, Base: 1}, {Epoch: 0x0c0d, Num: tuple.Num}, {}},
		}
		block.Base.Num, block.More[0].Num = 0, 0
		if kindParts[kind].num == 0 {
			block.More, block.Ranks[0].Base = nil, 0
		} else {
			block.More[0].LID += uint16(kindParts[kind].lid)
			block.More[0].Addr[0] += byte(kindParts[kind].addr)
		}
		again, err := ParseBlock(block.Append(nil))
		require.NoError(t, err, kind)
		require.Equal(t, block, again)
		parsed = append(parsed, *again)
	}
	key := DeriveKey([32]byte{1, 2, 3})
	e := Envelope{Kind: 3, Dst: 0x02030405, DstEpoch: 0x0607, Gen: 0x08090a0b, Path: 0x1213}
	sealed := NewSeal(key, 0x0c0d0e0f, 0x1011).Append(nil, e, []byte("body"))
	got, _, err := NewSeal(key, e.Dst, e.DstEpoch).Open(sealed)
	require.NoError(t, err)
	e.Src, e.SrcEpoch = 0x0c0d0e0f, 0x1011
	require.Equal(t, e, got)
	zero := fields.Zero(nil, append(parsed, got)...)
	require.Equal(t, []string{"Block.Base.Num", "Block.More[].Num"}, zero, "a base has no number")
}
