package lookup

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/core/subtree"
	"ibrun/bootstrap/wire/rankwire"
)

// node has ranks 4, 5 and 6, of which 4 has joined the job.
func node() (*subtree.Ranks, *Pairs) {
	own := &subtree.Ranks{}
	own.Open(4, 3)
	own.Of(4).Join()
	p := NewPairs(own)
	return own, &p
}

// Two ranks are connected once, when both have joined, whoever asks and however often.
func TestConnectedOnce(t *testing.T) {
	own, p := node()
	require.Empty(t, p.Ask(4, 6), "6 has not joined")
	require.Empty(t, p.Ask(4, 6))
	require.Empty(t, p.Retry())
	own.Of(6).Join()
	require.Equal(t, []PairEffect{{A: 4, B: 6}}, p.Retry())
	require.Empty(t, p.Retry())
	require.Empty(t, p.Ask(6, 4), "they are connected")
	own.Of(5).Join()
	require.Equal(t, []PairEffect{{A: 4, B: 5}}, p.Ask(5, 4))
}

// A rank whose socket has ended asks again. While the other one seems to run it is not answered,
// and when that has ended it is; a rank that was restarted is connected anew when it has joined.
func TestAskedAgain(t *testing.T) {
	own, p := node()
	own.Of(5).Join()
	require.Len(t, p.Ask(4, 5), 1)
	require.Empty(t, p.Ask(4, 5))
	require.Empty(t, p.Retry())
	own.Of(5).Exit(false)
	require.Equal(t, []PairEffect{{A: 4, B: 5, What: rankwire.Exited}}, p.Retry())
	require.Empty(t, p.Retry(), "once")

	own, p = node()
	own.Of(5).Join()
	p.Ask(4, 5)
	p.Ask(4, 5)
	own.Of(5).Restart(1)
	p.Forget(5)
	require.Empty(t, p.Ask(4, 5))
	require.Empty(t, p.Retry())
	own.Of(5).Join()
	require.Equal(t, []PairEffect{{A: 4, B: 5}}, p.Retry())
}
