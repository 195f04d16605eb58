package peer

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/job"
)

// A peer that is made with a floor takes nothing of an older epoch, and asks for no older address.
func TestMadeWithAFloor(t *testing.T) {
	p := New(Config{Epoch: job.Epoch(1, 1), Floor: job.Epoch(1, 1)})
	require.Equal(t, job.Epoch(1, 1), p.Epoch())
	var least uint16
	for _, e := range p.Step(0, Event{Kind: Send, Msg: []byte("m")}) {
		if e.Kind == Resolve {
			least = e.Least
		}
	}
	require.Equal(t, job.Epoch(1, 1), least)
}
