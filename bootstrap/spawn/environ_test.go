package spawn

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/job"
)

// Later parts win, a name comes once, and of the node's own environment only
// what the user's side was told to leave to nodes is taken.
func TestEnvironParts(t *testing.T) {
	node := []string{"TMPDIR=/node", "PATH=/node", "SLURM_JOB=1", "odd", "SLURM_X=2=3"}
	p := &job.Program{Env: []string{"PATH=/user", "SLURM_X=user", "UCX_NET_DEVICES=mine", "EMPTY="}, Drop: []string{"TMPDIR", "SLURM_*"}}
	all := shared(node, p)
	env := all.of([]string{"UCX_NET_DEVICES=mlx5_0:1", "GLOO=eth0", "SLURM_JOB=2"}, []string{"IBRUN_RANK=3", "EMPTY=x"})
	require.Equal(t, []string{
		"PATH=/user", "SLURM_X=user", "UCX_NET_DEVICES=mine", "EMPTY=x", "TMPDIR=/node", "SLURM_JOB=2", "GLOO=eth0", "IBRUN_RANK=3",
	}, env.list)
	env.suggest("PATH=/ours")
	env.suggest("NEW=1")
	require.Contains(t, env.list, "PATH=/user")
	require.Equal(t, "NEW=1", env.list[len(env.list)-1])
	// What one rank is told, the next does not see.
	require.Equal(t, []string{"PATH=/user", "SLURM_X=user", "UCX_NET_DEVICES=mine", "EMPTY=", "TMPDIR=/node", "SLURM_JOB=1"}, all.list)
	require.Equal(t, append(slices.Clone(all.list), "IBRUN_RANK=4"), all.of(nil, []string{"IBRUN_RANK=4"}).list)
}

// twoPrograms is node 1 of a job: ranks 2 to 4, the last of the second program.
func twoPrograms(change func(*job.Job)) *Set {
	j := &job.Job{
		ID: "00000000000000ff", Size: 5, Nodes: 2, Layout: job.NewLayout([]job.Share{{Nodes: 1, Ranks: 2}, {Nodes: 1, Ranks: 3}}), FirstHost: "n0",
		Programs: []job.Program{{Count: 4, Dir: "/a"}, {First: 4, Count: 1, App: 1, Dir: "/b"}},
	}
	if change != nil {
		change(j)
	}
	return New(Config{Job: j, Node: job.Node{Host: "n1", First: 2, Ranks: 3}, NodeIndex: 1, Events: recorder(func(Event) {})})
}

func TestIdentity(t *testing.T) {
	s := twoPrograms(nil)
	own := s.identity(s.rank(4), true)
	for _, want := range []string{
		"PMI_FD=3", "PMI_SPAWNED=0", "PMI_RANK=4", "PMI_SIZE=5", "OMPI_COMM_WORLD_LOCAL_RANK=2", "LOCAL_WORLD_SIZE=3", "MASTER_ADDR=n0",
		"IBRUN_NODE=1", "IBRUN_NODES=2", "IBRUN_HOST=n1", "IBRUN_APPNUM=1", "IBRUN_FD=3", "PWD=/b",
	} {
		require.Contains(t, own, want)
	}
	require.Contains(t, s.identity(s.rank(3), true), "IBRUN_APPNUM=0")
	names := map[string]bool{}
	for _, entry := range own {
		name, _, ok := strings.Cut(entry, "=")
		require.True(t, ok && !names[name], entry)
		names[name] = true
	}
	s = twoPrograms(func(j *job.Job) { j.Spawner = "x" })
	require.False(t, slices.ContainsFunc(s.identity(s.rank(2), false), func(e string) bool {
		return strings.HasPrefix(e, "PMI_FD") || strings.HasPrefix(e, "PMI_SPAWNED")
	}))
	require.Contains(t, s.identity(s.rank(2), true), "PMI_SPAWNED=1")
	// Dealt: slot 2 is the first of node 1, and the second that was dealt.
	s = twoPrograms(func(j *job.Job) { j.Layout = j.Layout.Dealt(1) })
	require.Contains(t, s.identity(s.rank(2), true), "PMI_RANK=1")
	// Under the names of a resource manager.
	s = twoPrograms(func(j *job.Job) {
		for f := range job.Facts {
			j.Own = append(j.Own, job.RankVariable{Name: fmt.Sprintf("FACT_%d", f), Fact: f})
		}
	})
	require.Equal(t, []string{"FACT_0=4", "FACT_1=2", "FACT_2=1", "FACT_3=n1", "FACT_4=5"}, s.identity(s.rank(4), false)[:5])
}

// The port of a job is the same everywhere, and below the ephemeral ones.
func TestMasterPort(t *testing.T) {
	seen := map[int]bool{}
	for i := range 100 {
		p := masterPort(strings.Repeat("a", i))
		require.True(t, 20000 <= p && p < 30000)
		seen[p] = true
	}
	require.Greater(t, len(seen), 90)
	require.Equal(t, masterPort("x"), masterPort("x"))
}

func TestExpand(t *testing.T) {
	s := twoPrograms(nil)
	name, err := s.expand("out.%r.%3t.%h.%j%%r", s.rank(4))
	require.NoError(t, err)
	require.Equal(t, "out.4.002.n1.00000000000000ff%r", name)
	_, err = s.expand("%x", s.rank(4))
	require.ErrorContains(t, err, "%x")
}
