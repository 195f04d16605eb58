package core

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/wire"
)

// A timer that is due stays so, whatever happens before it is served: heartbeats would not be sent
// otherwise, and an agent that was late itself would not excuse others.
func TestTimerThatIsDueStays(t *testing.T) {
	s := newScenario(t, "agent 1 2\nnodes 1 1\nfrom running")
	due := s.timer
	require.NotZero(t, due)
	s.now = due
	s.step(Frame{Up, wire.Heartbeat{}})
	require.Equal(t, due, s.timer)
	s.step(Tick{})
	require.Greater(t, s.timer, due)
}
