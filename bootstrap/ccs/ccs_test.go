package ccs

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseRequest(t *testing.T) {
	head := func(size, pe uint32, handler string) (h [RequestSize]byte) {
		binary.BigEndian.PutUint32(h[:], size)
		binary.BigEndian.PutUint32(h[4:], pe)
		copy(h[8:], handler)
		return h
	}
	q, rest, err := ParseRequest(head(4, 2, "hi"))
	require.NoError(t, err)
	require.Equal(t, Request{Handler: "hi", PE: 2}, q)
	require.Equal(t, 4, rest)
	_, rest, err = ParseRequest(head(4, ^uint32(1), "hi"))
	require.NoError(t, err)
	require.Equal(t, 12, rest, "4 bytes of data and a list of 2 PEs")
	for _, bad := range []uint32{MaxRequest + 1, 1 << 31, ^uint32(0)} {
		_, _, err = ParseRequest(head(bad, 0, "hi"))
		require.ErrorIs(t, err, ErrTooLong)
	}
	_, _, err = ParseRequest(head(0, 1<<31, "hi"))
	require.ErrorIs(t, err, ErrTooLong, "a list of 2 147 483 648 PEs")
	_, _, err = ParseRequest(head(0, 0, strings.Repeat("x", 32)))
	require.ErrorIs(t, err, ErrHandler)
	require.ErrorIs(t, Request{}.Check(), ErrHandler)
	require.ErrorIs(t, Request{Handler: "a\x00b"}.Check(), ErrHandler)
}

func TestRequestToListOfPEs(t *testing.T) {
	several := Request{Handler: "hi", PE: -2, Data: []byte("\x00\x00\x00\x03\x00\x00\x00\x04data")}
	require.NoError(t, several.Check())
	require.Equal(t, int32(3), several.First())
	several.Data = several.Data[:7]
	require.ErrorIs(t, several.Check(), ErrList)
	require.Equal(t, int32(0), Request{PE: -1}.First())
}

func TestCensus(t *testing.T) {
	pes, ok := ParseCensus(Census([]uint32{1, 4}))
	require.True(t, ok)
	require.Equal(t, []uint32{1, 4}, pes)
	for _, b := range [][]byte{nil, {0, 0, 0, 1}, {0, 0, 0, 0, 0}, make([]byte, 8)} {
		_, ok := ParseCensus(b)
		require.False(t, ok, b)
	}
}
