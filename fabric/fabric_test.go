package fabric

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

func tuples() []Tuple {
	addr := [16]byte{0xfe, 0x80, 15: 9}
	four := Ethernet(netip.MustParseAddrPort("10.1.2.3:40000"))
	roce := Tuple{Kind: ROCE4, Addr: four.Addr, Num: 1<<24 - 1}
	return []Tuple{
		four, Ethernet(netip.MustParseAddrPort("[fd00::1]:1")), {Kind: IB, LID: 4711, Num: 0x123456, Path: 1, Rails: 2},
		roce,
		{Kind: ROCE6, Addr: addr, Num: 5}, {Kind: IBGID, LID: 3, Addr: addr, Num: 6}, {Kind: NONE},
	}
}

// The lengths are those of docs/dev/protocol.md; nothing else is a form of the same tuple.
func TestTuples(t *testing.T) {
	for i, want := range []int{7, 19, 6, 8, 20, 22, 1} {
		tuple := tuples()[i]
		b := tuple.Append(nil)
		require.Len(t, b, want, tuple.Kind.String())
		got, n, err := ParseTuple(append(b, 0xff))
		require.NoError(t, err)
		require.Equal(t, want, n)
		require.Equal(t, tuple, got)
		require.NotEmpty(t, tuple.String())
		for cut := range b {
			_, _, err := ParseTuple(b[:cut])
			require.ErrorIs(t, err, ErrTuple)
		}
		b[0] |= 1
		_, _, err = ParseTuple(b)
		require.ErrorIs(t, err, ErrTuple, "another version")
	}
	require.Equal(t, []byte{0x00, 10, 1, 2, 3, 0x9c, 0x40}, tuples()[0].Append(nil))
	require.Equal(t, []byte{2<<5 | 2<<3 | 1<<2, 0x12, 0x67, 0x12, 0x34, 0x56}, tuples()[2].Append(nil))
	require.Equal(t, "10.1.2.3:40000", tuples()[0].AddrPort().String())
}

func blocks() []*Block {
	full := &Block{Node: 3, First: 48, Base: Tuple{Kind: IB, LID: 7}}
	for i := range 128 {
		full.Ranks = append(full.Ranks, Entry{Epoch: 1, Num: uint32(1000 + i)})
	}
	four := tuples()[0]
	four.Num = 0
	partial := &Block{Node: 0, First: 0, Base: four, TTL: 1, Ranks: []Entry{{1, 1000, 0}, {}, {1, 1001, 0}}}
	mixed := &Block{Node: 9, First: 90, Base: four, Ranks: []Entry{{1, 1000, 0}, {3, 7, 0}, {}, {2, 1001, 0}}}
	none := &Block{Node: 9, First: 90, Base: Tuple{Kind: NONE}, Ranks: []Entry{{1, 0, 0}, {1, 0, 0}}}
	ports := &Block{Node: 2, First: 8, Base: Tuple{Kind: IB, LID: 7, Path: 1},
		More: []Tuple{{Kind: IB, LID: 9, Path: 1}}, Ranks: []Entry{{1, 5, 1}, {}, {2, 6, 0}}}
	return []*Block{full, partial, mixed, none, ports, {Base: Tuple{Kind: ETH6}, Ranks: []Entry{}}}
}

func TestBlocks(t *testing.T) {
	require.Len(t, blocks()[0].Append(nil), 418, "128 ranks on InfiniBand")
	for _, b := range blocks() {
		raw := b.Append(nil)
		got, err := ParseBlock(raw)
		require.NoError(t, err)
		require.Equal(t, b, got)
		for cut := range raw {
			_, err := ParseBlock(raw[:cut])
			require.Error(t, err)
		}
		_, err = ParseBlock(append(raw, 0))
		require.Error(t, err)
	}
	mixed := blocks()[2]
	_, _, ok := mixed.Tuple(92)
	require.False(t, ok)
	tuple, epoch, ok := mixed.Tuple(91)
	require.True(t, ok)
	require.Equal(t, uint16(3), epoch)
	require.Equal(t, "10.1.2.3:7", tuple.String())
	tuple, _, ok = blocks()[4].Tuple(8)
	require.True(t, ok)
	require.Equal(t, Tuple{Kind: IB, LID: 9, Path: 1, Num: 5}, tuple, "at the second port")
	for _, rank := range []uint32{89, 94, 0} {
		_, _, ok = mixed.Tuple(rank)
		require.False(t, ok)
	}
}

func FuzzParseBlock(f *testing.F) {
	for _, b := range blocks() {
		f.Add(b.Append(nil))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if b, err := ParseBlock(raw); err == nil {
			require.Equal(t, raw, b.Append(nil))
		}
	})
}

func FuzzParseTuple(f *testing.F) {
	for _, tuple := range tuples() {
		f.Add(tuple.Append(nil))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if tuple, n, err := ParseTuple(raw); err == nil {
			require.Equal(t, raw[:n], tuple.Append(nil))
		}
	})
}

func TestSeal(t *testing.T) {
	key := DeriveKey([32]byte{1, 2, 3})
	a, b := NewSeal(key, 1, 5), NewSeal(key, 2, 6)
	e := Envelope{Kind: 3, Dst: 2, DstEpoch: 6, Gen: 77}
	sealed := a.Append([]byte("before"), e, []byte("body"))[6:]
	require.Len(t, sealed, Overhead+4)
	got, body, err := b.Open(sealed)
	require.NoError(t, err)
	require.Equal(t, "body", string(body))
	e.Src, e.SrcEpoch = 1, 5
	require.Equal(t, e, got)
	for i := range sealed {
		for bit := range 8 {
			bad := bytes.Clone(sealed)
			bad[i] ^= 1 << bit
			_, _, err := b.Open(bad)
			require.Error(t, err, "byte %d bit %d", i, bit)
		}
	}
	_, _, err = NewSeal(DeriveKey([32]byte{9}), 2, 6).Open(sealed)
	require.ErrorIs(t, err, ErrForeign)
	_, _, err = NewSeal(key, 3, 6).Open(sealed)
	require.ErrorIs(t, err, ErrStray)
	require.NotEqual(t, sealed, a.Append(nil, e, []byte("body")), "no nonce comes twice")
	buf := make([]byte, 0, 256)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		buf = a.Append(buf[:0], e, []byte("body"))
		_, _, _ = b.Open(buf)
	}))
}

func BenchmarkSeal(b *testing.B) {
	key := DeriveKey([32]byte{1, 2, 3})
	from, to := NewSeal(key, 1, 5), NewSeal(key, 2, 6)
	body := make([]byte, 64)
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = from.Append(buf[:0], Envelope{Kind: 3, Dst: 2}, body)
		if _, _, err := to.Open(buf); err != nil {
			b.Fatal(err)
		}
	}
}
