//go:build cluster

package remote

import (
	"net"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/test/waitfor"
)

// TestEvidence: what the kernel says of a connection whose other end takes nothing
// any more, as an agent that is stopped. It is not one whose host does not answer.
func TestEvidence(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	far, err := l.Accept()
	require.NoError(t, err)
	defer far.Close()
	ours := func(s tcpSocket) bool { return s.local.String() == c.LocalAddr().String() }
	_, err = c.Write([]byte("twelve bytes"))
	require.NoError(t, err)
	waitfor.Require(t, "all is acknowledged", func() bool {
		e, known := evidence(ours)
		return known && !e.Waits && e.Resent == 0 && e.Acked >= 12
	})

	written := 0
	for err == nil { // until the kernel takes no more
		var n int
		_ = c.SetWriteDeadline(time.Now().Add(time.Second))
		n, err = c.Write(make([]byte, 1<<20))
		written += n
	}
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	waitfor.Require(t, "not all is acknowledged", func() bool {
		e, known := evidence(ours)
		return known && !e.Waits && e.Resent == 0 && e.Acked < uint64(written)
	})
	require.True(t, slices.ContainsFunc(listed(), ours), "/proc has it, too")
	_, known := evidence(func(tcpSocket) bool { return false })
	require.False(t, known)
}
