//go:build ib

package ib

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/cgo/verbs"
	"ibrun/fabric"
)

// nodes are tuples of so many nodes that are not there.
func nodes(from fabric.Tuple, n int) (list []fabric.Tuple) {
	for i := range n {
		from.LID, from.Num = uint16(1+i), uint32(i)
		list = append(list, from)
	}
	return list
}

// Whoever can send to a port knows the queue key, which is in every packet, and may
// even know the cookie. Without the job's key no answer, no queue pair and no address
// handle comes of it, nor does a seal for somebody else help.
func TestStrangersMakeNothing(t *testing.T) {
	own := config("mlx5_0")
	own.Key = [32]byte{1}
	f, box := openAt(t, own)
	offer, err := f.Offer()
	require.NoError(t, err)
	stranger, _ := openAt(t, config("mlx5_0"))
	other, _ := openAt(t, own)

	// in the background
	require.Eventually(t, func() bool { return f.Counters().Made == spares }, patience, time.Millisecond)

	cookie := f.streams().cookie
	made, sent := f.Counters().Made, f.Counters().Control
	const each = 300
	for i, from := range nodes(f.Tuple(), each) {
		side := side{qpn: 7, psn: 7, window: leastWindow, tag: 7, mtu: verbs.MTU1024}
		c := control{call: call(1 + i%4), cookie: cookie + uint64(i/4%2), nonce: rand.Uint64(), side: side, from: from}
		stranger.sendControl(f.Tuple(), c) // with a key of its own
		b := other.seal(other.Tuple(), c.append(nil))
		for _, m := range [][]byte{b, c.append(nil)} { // as it has heard one for another endpoint, and not sealed
			_, err := stranger.post(f.Tuple(), m, len(m), controlMark)
			require.NoError(t, err)
		}
		last := fmt.Sprint("last", i)
		require.NoError(t, stranger.Post(f.Tuple(), []byte(last))) // in its turn, and few under way
		require.True(t, box.Has(last))
	}
	c := f.Counters()
	require.EqualValues(t, 3*each, c.Strangers)
	require.Equal(t, sent, c.Control, "nothing is answered")
	require.Equal(t, made, c.Made)
	require.Empty(t, f.out.handles)
	require.Empty(t, f.streams().calls)

	s, err := other.Dial(t.Context(), f.Tuple(), offer) // who has the key is heard
	require.NoError(t, err)
	s.Close()
	box.Stream(t).Close()
}

// A rank that sends to ever more nodes keeps a bounded number of handles, and those
// in use.
func TestHandlesAreBounded(t *testing.T) {
	f, _ := openAt(t, config("mlx5_0"))
	peer, box := openAt(t, config("mlx5_0"))
	for i, to := range nodes(f.Tuple(), mostHandles+500) {
		require.NoError(t, f.Post(to, []byte("nobody")))
		if i%100 == 0 {
			somebody := fmt.Sprint("somebody", i)
			require.NoError(t, f.Post(peer.Tuple(), []byte(somebody)))
			require.True(t, box.Has(somebody))
		}
	}
	require.LessOrEqual(t, len(f.out.handles), mostHandles)
	to := peer.Tuple()
	to.Num = 0
	require.Contains(t, f.out.handles, to)
}
