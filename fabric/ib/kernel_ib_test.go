//go:build ib

package ib

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ibrun/test/rdmavm/inside"
	"ibrun/test/skip"
	"ibrun/test/waitfor"
)

// addressIP is a struct sockaddr_in or sockaddr_in6.
func addressIP(a netip.Addr) []byte {
	if a.Is4() {
		b := binary.NativeEndian.AppendUint16(nil, unix.AF_INET)
		return append(append(b, 0, 0), append(a.AsSlice(), make([]byte, 8)...)...)
	}
	b := binary.NativeEndian.AppendUint16(nil, unix.AF_INET6)
	return append(append(b, make([]byte, 6)...), append(a.AsSlice(), make([]byte, 4)...)...)
}

// The kernel's connection manager answers for a device of RoCE, whose records it makes itself:
// every command, event and offset is its own. By GID it knows none there, and says so at the step
// that asks.
func TestKernelAnswers(t *testing.T) {
	if !inside.In() {
		skip.Done(t, "TestOtherPackages of test/ib, in a virtual machine with Soft-RoCE")
	}
	require.NoError(t, Source{}.Available())
	ctx, cancel := context.WithTimeout(t.Context(), waitfor.Deadline)
	defer cancel()
	nets, err := net.InterfaceAddrs()
	require.NoError(t, err)
	answered := 0
	for _, n := range nets {
		prefix, err := netip.ParsePrefix(n.String())
		require.NoError(t, err)
		at := prefix.Addr()
		if at.IsLoopback() || !at.Is4() {
			continue
		}
		r, err := Source{}.resolve(ctx, cmSpaceTCP, cmReliable, addressIP(at), addressIP(at))
		require.NoError(t, err)
		gid := at.As16()
		require.Equal(t, Record{From: gid, To: gid, PKey: 0xffff, SL: r.SL, DLID: r.DLID}, r) // LIDs mean nothing
		require.LessOrEqual(t, r.SL, uint8(7), "a priority")
		answered++
	}
	require.NotZero(t, answered, "%v", nets)

	_, err = Source{}.Between(ctx, [16]byte{0: 0xfe, 1: 0x80, 15: 1}, [16]byte{0: 0xfe, 1: 0x80, 15: 2}, 0xffff)
	require.ErrorContains(t, err, "finding the port: ")
}
