package plan

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// A spawned job has the hosts, the environment and the options of its parent, and nothing that
// names the parent's ranks.
func TestSpawned(t *testing.T) {
	line := []string{"-H", "login1:2,b:2", "-n", "3", "--stdin", "all", "--output", "o.%r", "--merge-stderr-to-stdout",
		"--stats", "--trace-events", "/tmp/events",
		"--report-bindings", "--min-nodes", "1", "--timeout", "9", "--wait", "5", "--fabric", "udp", "A=1", "true"}
	parent := mustPlan(t, line...)
	parent.Job.ID = "0123456789abcdef"
	at := around(t)
	from := wire.Offspring{
		Job: parent.Job, Alloc: parent.Alloc, Tree: "kary:2", KillOnBad: true, Wait: 5, Preflight: true,
		Spawn: rankwire.SpawnJob{
			Rank: 2,
			Commands: rankwire.NewCommands(
				rankwire.Command{Ranks: 1, Argv: rankwire.NewStrings("true"), Dir: "below"}, rankwire.Command{Ranks: 4,
					Argv: rankwire.NewStrings("echo", "x")}),
			Preput: rankwire.NewPairs(job.KeyValue{Key: "k", Value: "v"}),
		},
	}
	p, err := Spawned(from, at, Identity{ID: "fedcba9876543210", Secret: [32]byte{1}})
	require.NoError(t, err)
	require.NoError(t, p.Job.Verify())
	require.True(t, p.Preflight)
	require.Equal(t, 0, p.Here)
	require.Equal(t, "fedcba9876543210", p.Job.ID)
	require.Equal(t, [32]byte{1}, p.Job.Secret)
	require.Equal(t, []any{parent.Job.ID, uint32(1)}, []any{p.Job.Spawner, p.Job.Depth})
	require.Equal(t, []job.KeyValue{{Key: "k", Value: "v"}}, p.Job.Preput)
	require.Equal(t, []any{uint32(5), uint32(2), "login1"}, []any{p.Job.Size, p.Job.Nodes, p.Job.FirstHost})
	require.Equal(t, job.Stdin{}, p.Job.Stdin)
	require.Equal(t, job.Output{Merge: true}, p.Job.Output)
	require.Equal(t, job.Binding{}, p.Job.Binding)
	require.False(t, p.Job.Transport.Stats)
	require.Equal(t, "udp", p.Job.Transport.Fabric)
	require.False(t, p.Job.Launch.StartBarrier)
	require.Equal(t, "/tmp/events", parent.Job.Launch.TraceEvents)
	require.Empty(t, p.Job.Launch.TraceEvents, "the files are the parent's")
	require.Equal(t, "kary:2", p.Shape.Name())
	require.Equal(t, p.Shape.String(), p.Job.Launch.Tree)
	require.Equal(t, []any{true, from.Wait, time.Duration(0)},
		[]any{p.Policy.KillOnBad, p.Policy.Wait, p.Policy.Timeout})
	first, second := p.Job.Programs[0], p.Job.Programs[1]
	require.Equal(t, []any{job.Rank(0), uint32(1), parent.Job.Programs[0].Dir + "/below"},
		[]any{first.First, first.Count, first.Dir})
	require.Equal(t, []any{job.Rank(1), uint32(4), []string{"echo", "x"}},
		[]any{second.First, second.Count, second.Argv})
	require.Contains(t, second.Env, "A=1")
	require.Equal(t, []any{uint32(3), true, "o.%r"}, []any{parent.Job.Size, parent.Job.Transport.Stats,
		parent.Job.Output.StdoutFile}, "the parent's stays")

	from.Spawn.Commands = rankwire.NewCommands(rankwire.Command{Ranks: 1, Argv: rankwire.NewStrings("a\x00b")})
	_, err = Spawned(from, at, Identity{})
	require.ErrorContains(t, err, "NUL")
	many := rankwire.Command{Ranks: job.MaxRanks + 1, Argv: rankwire.NewStrings("true")}
	from.Spawn.Commands = rankwire.NewCommands(many)
	_, err = Spawned(from, at, Identity{})
	require.Error(t, err)
}
