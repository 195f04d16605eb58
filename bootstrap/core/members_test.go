package core

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/wire"
)

// Ranks learn the hosts of the nodes that take part in the end.
func TestHostsOfMembers(t *testing.T) {
	s := newScenario(t, "agent 2 4\nnodes 2 2 2 2\nheld\nhosts\nfrom up")
	require.Equal(t, "n[0-3]", s.core.job.Hosts)
	forks := 0
	for _, e := range s.core.Step(s.now, Frame{Up, wire.Membership{FirstHost: "s1", Hosts: "s1,n[1-3]"}}) {
		if f, ok := e.(Fork); ok {
			forks++
			require.Equal(t, "s1,n[1-3]", f.Job.Hosts)
		}
	}
	require.Equal(t, 1, forks)
}
