//go:build ib

package ib

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/fabric"
	"ibrun/test/fakeverbs"
	"ibrun/test/waitfor"
)

// taker is a sink that keeps what comes, in order.
type taker struct{ came chan []byte }

func (x taker) Datagram(_ fabric.Tuple, b []byte) { x.came <- slices.Clone(b) }
func (taker) Accepted(fabric.Stream)              {}

func arrives(t *testing.T, came <-chan []byte) (b []byte) {
	select {
	case b = <-came:
	case <-time.After(patience):
		require.FailNow(t, "nothing arrives")
	}
	return b
}

// Several datagrams go to the device with one ring of its doorbell, sixteen at most, and arrive one
// by one, the last one shorter. What the send queue has no room for is lost, and counted.
func TestPostAll(t *testing.T) {
	a, _ := openAt(t, config("mlx5_0"))
	in := taker{make(chan []byte, 1000)}
	f, err := Open(config("mlx5_0"), in)
	require.NoError(t, err)
	defer f.Close()
	bells := func() (n int) {
		waitfor.Require(t, "two contexts of the device", func() bool { // contexts of earlier tests may still be closing
			all, err := fakeverbs.Join().Order("count mlx5_0")
			require.NoError(t, err)
			n = 0
			for _, c := range all {
				n += c["bells"]
			}
			return len(all) == 2
		})
		return n
	}
	const size, count = 100, 40
	b := make([]byte, size*count-30)
	for i := range b {
		b[i] = byte(i / size)
	}
	require.NoError(t, a.Post(f.Tuple(), []byte("first"))) // the receiver has room for few before
	require.Equal(t, "first", string(arrives(t, in.came)))
	f.in.mu.Lock() // of who has brought it, and makes room before letting go
	require.Len(t, f.in.rings, 2)
	f.in.mu.Unlock()
	before := bells()
	require.NoError(t, a.PostAll(f.Tuple(), b, size))
	require.Equal(t, 3, bells()-before, "16, 16 and 8")
	for n := range count {
		require.Equal(t, b[n*size:min(len(b), (n+1)*size)], arrives(t, in.came))
	}
	require.EqualValues(t, 1+count, a.Counters().Sent)
	require.EqualValues(t, len("first")+len(b), a.Counters().SentBytes)

	a.mute.Store(true)
	require.NoError(t, a.PostAll(f.Tuple(), b, size))
	require.EqualValues(t, count, a.Counters().Lost)
	a.mute.Store(false)
	require.ErrorIs(t, a.PostAll(f.Tuple(), make([]byte, 20000), 10000), fabric.ErrTooLong)
	require.NoError(t, a.Close())
	require.ErrorIs(t, a.PostAll(f.Tuple(), b, size), fabric.ErrClosed)
}
