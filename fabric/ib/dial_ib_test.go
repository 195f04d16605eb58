//go:build ib

package ib

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A CONNECT that comes again is answered as soon as the engine has the stream. So the dialler's
// first message may be here before the listener waits for it, and the stream is still accepted.
func TestReadyBeforeAwait(t *testing.T) {
	a, _ := openAt(t, config("mlx5_0"))
	b, x := openAt(t, config("mlx5_0"))
	near, err := a.startEngine()
	require.NoError(t, err)
	far, err := b.startEngine()
	require.NoError(t, err)
	ours, err := near.take()
	require.NoError(t, err)
	theirs, err := far.take()
	require.NoError(t, err)
	require.NoError(t, a.learn(t.Context(), ours, b.tuple))
	require.NoError(t, b.learn(t.Context(), theirs, a.tuple))
	mine, its := a.side(ours), b.side(theirs)
	require.NoError(t, near.connect(ours, mine, control{side: its, from: b.tuple}))
	require.NoError(t, far.connect(theirs, its, control{side: mine, from: a.tuple}))

	listening := far.add(theirs, its, mine, &callKey{1, a.tuple})
	dialled := near.add(ours, mine, its, nil)
	defer dialled.Close()
	dialled.begin()
	require.Eventually(t, func() bool {
		listening.mu.Lock()
		defer listening.mu.Unlock()
		return listening.in.ready
	}, patience, time.Millisecond)
	listening.await(time.Nanosecond)
	require.Same(t, listening, x.Stream(t))
	require.NoError(t, listening.Close())
}
