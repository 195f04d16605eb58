package ib

import (
	"encoding/binary"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// The kernel's structures, by the offsets of its headers.
func TestRecordLayout(t *testing.T) {
	b := make([]byte, cmRecordSize)
	copy(b[8:], []byte{15: 2})
	copy(b[24:], []byte{15: 1})
	binary.BigEndian.PutUint16(b[40:], 688)
	binary.BigEndian.PutUint16(b[42:], 932)
	binary.BigEndian.PutUint16(b[50:], 0x8005)
	binary.BigEndian.PutUint16(b[52:], 0xabc7) // class of service and level
	r, err := parseRecord(b)
	require.NoError(t, err)
	require.Equal(t, Record{From: [16]byte{15: 1}, To: [16]byte{15: 2}, DLID: 688, SLID: 932, PKey: 0x8005, SL: 7}, r)
	_, err = parseRecord(b[:63])
	require.Error(t, err)

	a := addressIB([16]byte{0xfe, 0x80, 15: 1}, 0x8005)
	require.Len(t, a, 48)
	require.EqualValues(t, afIB, binary.NativeEndian.Uint16(a))
	require.Equal(t, []byte{0x80, 0x05, 0, 0, 0, 0, 0xfe, 0x80}, a[2:10])

	event := make([]byte, cmEventSize)
	binary.NativeEndian.PutUint32(event[12:], 3)
	binary.NativeEndian.PutUint32(event[16:], ^uint32(syscall.ETIMEDOUT)+1)
	what, status := parseEvent(event)
	require.Equal(t, []any{uint32(3), syscall.ETIMEDOUT}, []any{what, status})
	require.Equal(t, []byte{1, 2}, frame(cmQuery, []byte{1, 2}, 80)[8:])
}

// What is no connection manager is an error that says where it was noticed.
func TestNoDevice(t *testing.T) {
	_, err := Source{Device: os.DevNull}.Between(t.Context(), [16]byte{1}, [16]byte{2}, 0xffff)
	require.Error(t, err)
	none := Source{Device: t.TempDir() + "/none"}
	require.ErrorIs(t, none.Available(), os.ErrNotExist)
	_, err = none.Between(t.Context(), [16]byte{1}, [16]byte{2}, 0xffff)
	require.ErrorIs(t, err, os.ErrNotExist)
}
