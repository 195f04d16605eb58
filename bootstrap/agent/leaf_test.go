package agent

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/wire"
	"ibrun/job"
)

// A leaf does all but to start other nodes by native ssh, to record, and to write its machine as
// JSON.
func TestOutgrows(t *testing.T) {
	native := job.LaunchOptions{Launcher: "ssh"}
	recording := native
	recording.Record = true
	repairing := native
	repairing.Repair = true
	for name, c := range map[string]struct {
		how   job.LaunchOptions
		nodes uint32
		share job.Parts
		want  bool
	}{
		"one node":                 {native, 1, nil, false},
		"a tree":                   {native, 2, nil, true},
		"a share":                  {native, 1, job.Parts{{First: 1, Nodes: nodes(1)}}, true},
		"one that may adopt":       {repairing, 1, nil, true},
		"one that records":         {recording, 1, nil, true},
		"by the program ssh":       {job.LaunchOptions{Launcher: "ssh", SSH: "exec"}, 2, nil, false},
		"by rsh":                   {job.LaunchOptions{Launcher: "rsh"}, 2, nil, false},
		"by a command of the user": {job.LaunchOptions{Launcher: "ssh", Exec: []string{"x"}}, 2, nil, false},
	} {
		m := wire.Launch{Job: &job.Job{Launch: c.how}, Nodes: nodes(c.nodes), Share: c.share}
		require.Equal(t, c.want, outgrows(m), name)
	}
	for _, drawn := range []job.Binding{{Topo: true}, {Topo: true, Data: true}, {Report: true}} {
		m := wire.Launch{Job: &job.Job{Launch: native, Binding: drawn}, Nodes: nodes(1)}
		require.True(t, outgrows(m), drawn)
	}
}

func nodes(n uint32) job.Nodes {
	return job.NewNodes(0, []job.Run{{Prefix: "n", Width: 1, Count: n, Ranks: 1}})
}
