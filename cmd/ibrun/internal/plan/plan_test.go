package plan

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/internal/job"
)

func TestSpellings(t *testing.T) {
	for _, line := range [][]string{
		{"-n", "6", "-ppn", "2", "-H", "a,b,c", "true", "-n", "9"},
		{"--np=6", "--ntasks-per-node=2", "--hosts=a,b,c", "true", "-n", "9"},
		{"++p", "6", "++processPerHost", "2", "-hostlist", "a,b,c", "--", "true", "-n", "9"},
		{"-np", "6", "--npernode", "2", "--nodelist", "a,b,c", "task_affinity", "true", "-n", "9"},
	} {
		p := mustPlan(t, line...)
		require.Equal(t, uint32(6), p.Job.Size, line)
		require.Equal(t, 3, p.Nodes.Len(), line)
		require.Equal(t, []string{"true", "-n", "9"}, p.Job.Programs[0].Argv, line)
	}
}

func TestRefusedLines(t *testing.T) {
	refuses(t, map[string]string{
		"":                                       "no program",
		"-n 4":                                   "no program",
		"-n 0 true":                              "whole number",
		"-n -1 true":                             "whole number",
		"-n 99999999 true":                       "whole number",
		"-n 2 -n 3 true":                         "contradicts",
		"-n":                                     "no value",
		"--hsots a true":                         "did you mean --hosts?",
		"--labell true":                          "did you mean --label?",
		"-N 2 -H a,b,c true":                     "-ppn",
		"-t 5 true":                              "--timeout",
		"--label=x true":                         "takes no value",
		"--tree star true":                       "unknown tree",
		"--tree kary:0 true":                     "fan-out",
		"--launcher slurm true":                  "does not run in a job of Slurm",
		"--launcher moon true":                   "ssh, rsh, local, slurm",
		"--bind-to moon true":                    "not known",
		"--timeout x true":                       "not a time",
		"--stdin 9 -n 2 true":                    "ranks 0 to 1",
		"--output out.%q true":                   "after %",
		"-H a -o 1 true":                         "goes with -n",
		"-H a:2 -n 1 -o 2 true":                  "leaves nothing",
		"-H a --exclude a true":                  "leaves no host",
		"-H a,b --spares 2 true":                 "--spares 2 of 2 hosts leaves none to run on",
		"--spares 1 true":                        "--spares 1 of 1 host leaves none",
		"-H a,b --spares 0 true":                 "not a whole number from 1",
		"-H a,b --min-nodes x true":              "not a whole number from 1",
		"-H a,b --min-nodes 3 true":              "--min-nodes 3: the job has 2 nodes",
		"-H a,b,c --spares 1 --min-nodes 3 true": "the job has 2 nodes",
		"-H a,b --min-nodes 1 -n 1 true : -n 1 true":           "with several programs",
		"-H a,b --min-nodes 1 --map-by node -n 4 true":         "node by node",
		"-H a,b --min-nodes 1 --distribution cyclic -n 4 true": "node by node",
		"-H -oProxyCommand=x true":                             "dash",
		"-H a;b true":                                          "character",
		"-f /nonexistent true":                                 "no such file",
		"-f / true":                                            "directory",
		"-f /dev/null true":                                    "neither a file nor a pipe",
		"-wdir /nonexistent true":                              "working directory",
		"--agent-path a'b true":                                "agent path",
		"--agent-path ibrun true":                              "agent path",
		"--agent-path /$x true":                                "agent path",
		"--fabric gold true":                                   "not known",
		"--sl 16 true":                                         "a number from 0 to 15",
		"--pkey 0 true":                                        "a number from 1 to 65535",
		"--poll often true":                                    "not known",
		"-configfile /nonexistent/file":                        "no such file",
	})
}

func TestHostFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(content string) string {
		f := filepath.Join(dir, "hosts")
		require.NoError(t, os.WriteFile(f, []byte(content), 0o600))
		return f
	}
	p := mustPlan(t, "-f", write("\xef\xbb\xbfa:2\r\n# x\r\nb slots=3\r\nu@c"), "true")
	require.Equal(t, uint32(6), p.Job.Size)
	_, err := planOf(t, "-f", write(""), "true")
	require.ErrorContains(t, err, "empty")
	_, err = planOf(t, "-f", write("a\x00"), "true")
	require.ErrorContains(t, err, "binary")
}

func TestSeveralPrograms(t *testing.T) {
	p := mustPlan(t, "-n", "2", "-H", "a:3,b:3", "A=1", "true", "x", ":", "-n", "4", "B=2", "false")
	require.Equal(t, uint32(6), p.Job.Size)
	require.Len(t, p.Job.Programs, 2)
	require.Equal(t, job.Rank(2), p.Job.Programs[1].First)
	require.Equal(t, uint32(4), p.Job.Programs[1].Count)
	require.Contains(t, p.Job.Programs[0].Env, "A=1")
	require.NotContains(t, p.Job.Programs[1].Env, "A=1")
}

func TestEnvironment(t *testing.T) {
	env := func(line ...string) []string { return mustPlan(t, append(line, "true")...).Job.Programs[0].Env }
	require.Equal(t, []string{"PATH=/usr/bin:/bin", "HOME=/h", "EVIL=a b\n$(x)"}, env())
	require.Contains(t, env("-x", "DISPLAY"), "DISPLAY=:0")
	require.Contains(t, env("-x", "NEW=v=w"), "NEW=v=w")
	require.Contains(t, env("-genv", "G", "x y"), "G=x y")
	require.Equal(t, []string{"HOME=/h"}, env("-envlist", "HOME", "--no-preflight"))
	require.Empty(t, env("-genvnone", "--no-preflight"))
	require.Equal(t, []string{"HOME=/h", "Q=1"}, env("--export=HOME,Q=1", "--no-preflight"))
	require.Contains(t, env("--export=ALL,Q=1"), "EVIL=a b\n$(x)")
}

func TestMisspeltKnob(t *testing.T) {
	require.Len(t, strangeKnobs([]string{"IBRUN_TASKS_PER_NOD=4", "IBRUN_TASKS_PER_NODE=4", "IBRUN_RANK=1", "HOME=/"}),
		1)
}

func TestThisMachine(t *testing.T) {
	for hosts, want := range map[string]int{
		"a,login1.cluster,b": 1, "a,login1": 1, "localhost": 0, "a,b": -1,
		"login1.other": -1, "other@login1": -1, "u@login1": 0, "a,127.0.0.1": 1,
	} {
		require.Equal(t, want, mustPlan(t, "-H", hosts, "true").Here, hosts)
	}
	p := mustPlan(t, "-n", "3", "true")
	require.Equal(t, 0, p.Here)
	require.Equal(t, "login1.cluster", p.Job.FirstHost)
}

func TestInfiniBandOptions(t *testing.T) {
	how := mustPlan(t, "--fabric=ib", "--sl=3", "--pkey=0x8001", "--gid-index=0", "--poll=spin", "true").Job.Transport
	require.Equal(t, "ib", how.Fabric)
	require.Equal(t, []any{uint8(3), uint16(0x8001), uint8(1), job.PollSpin},
		[]any{how.SL, how.PKey, how.GID, how.Poll})
	require.Equal(t, "auto", mustPlan(t, "true").Job.Transport.Fabric)
	require.EqualValues(t, job.SLOfPath, mustPlan(t, "--sl=path", "true").Job.Transport.SL)
	_, err := planOf(t, "--sl=16", "true")
	require.ErrorContains(t, err, "is not a number from 0 to 15, nor path")
}

func TestPlacementWords(t *testing.T) {
	for line, want := range map[string]job.Binding{
		"":                                      {},
		"--bind-to auto":                        {},
		"tacc_affinity":                         {},
		"--map-by slot":                         {},
		"-m block":                              {},
		"--bind-to none":                        {Bind: job.Unbound},
		"--bind-to socket":                      {Bind: job.Package},
		"--bind-to core:overload-allowed":       {Bind: job.Core, Overload: true},
		"--map-by core --bind-to hwthread":      {Map: job.Core, Bind: job.HWThread},
		"--map-by l3cache:PE=2":                 {Map: job.L3, PE: 2},
		"--map-by :PE=4":                        {PE: 4},
		"-c 4":                                  {PE: 4},
		"++ppn 4":                               {PE: 4},
		"-c 4 --map-by numa:PE=4:OVERSUBSCRIBE": {Map: job.NUMA, PE: 4, Overload: true},
		"--map-by ppr:2:package -ppn 4":         {Map: job.Package, PerObj: 2},
		"--map-by package --rank-by fill":       {Map: job.Package, Fill: true},
		"--cpu-bind verbose,cores":              {Bind: job.Core, Report: true},
		"--cpu-bind map_cpu:0,2":                {CPUs: []string{"0", "2"}},
		"--cpu-bind mask_cpu:0x3,c":             {CPUs: []string{"0-1", "2-3"}},
		"-m block:cyclic":                       {Map: job.Package},
		"-m cyclic:block":                       {Map: job.Core},
		"--hca mlx5_0:1,mlx5_1":                 {HCA: "mlx5_0:1,mlx5_1"},
		"--report-bindings":                     {Report: true},
		"--display bind,topo":                   {Report: true, Topo: true},
	} {
		p := mustPlan(t, append(strings.Fields(line), "true")...)
		require.Equal(t, want, p.Job.Binding, line)
	}
}

func TestDealtToNodes(t *testing.T) {
	places(t, map[string]string{
		"-n 8 -H a:4,b:4 -m cyclic true":             "a=0,2,4,6 b=1,3,5,7",
		"-n 8 -H a:4,b:4 --map-by node true":         "a=0,2,4,6 b=1,3,5,7",
		"-n 8 -H a:4,b:4 --rank-by node true":        "a=0,2,4,6 b=1,3,5,7",
		"-n 8 -H a:4,b:4 -m plane=2 true":            "a=0,1,4,5 b=2,3,6,7",
		"-n 6 -H a:4,b:4 --map-by package:SPAN true": "a=0,1,2 b=3,4,5",
		"-n 4 -H a,b --map-by node true":             "a=0,2 b=1,3",
	})
	require.Equal(t, job.Stdin{Mode: job.StdinOne, Rank: 2},
		mustPlan(t, "-n", "4", "-H", "a:2,b:2", "-m", "cyclic", "--stdin", "1", "true").Job.Stdin, "its slot")
}

func TestTimes(t *testing.T) {
	for text, want := range map[string]time.Duration{"90": 90 * time.Second, "90s": 90 * time.Second,
		"10m": 10 * time.Minute, "0.5": 500 * time.Millisecond} {
		require.Equal(t, want, mustPlan(t, "--timeout", text, "true").Policy.Timeout)
	}
}

func TestStdin(t *testing.T) {
	require.Equal(t, job.Stdin{Mode: job.StdinOne}, mustPlan(t, "true").Job.Stdin)
	require.Equal(t, job.Stdin{Mode: job.StdinOne, Rank: 2}, mustPlan(t, "-n", "3", "--stdin", "2", "true").Job.Stdin)
	require.Equal(t, job.Stdin{}, mustPlan(t, "--stdin", "none", "true").Job.Stdin)
}

// Spares are the last hosts, and no rank is placed on them; ranks wait where nodes
// may change or be missing.
func TestSparesAreHeldBack(t *testing.T) {
	p := mustPlan(t, "-H", "n[1-6]", "--spares", "2", "-n", "8", "true")
	require.Equal(t, 4, p.Nodes.Len())
	require.Equal(t, "n4", p.Nodes.At(3).Host)
	require.Equal(t, 2, p.Policy.Spares.Len())
	require.Equal(t, "n5", p.Policy.Spares.At(0).Host)
	require.True(t, p.Job.Launch.StartBarrier)
	p = mustPlan(t, "-H", "n[1-6]", "--min-nodes", "5", "true")
	require.Equal(t, 5, p.Policy.MinNodes)
	require.True(t, p.Job.Launch.StartBarrier)
	p = mustPlan(t, "-H", "n[1-200]", "true")
	require.False(t, p.Job.Launch.StartBarrier)
	require.True(t, p.Job.Launch.LateBinding, "a tree by the model is bound late")
	require.False(t, mustPlan(t, "-H", "n[1-200]", "--tree", "kary:2", "true").Job.Launch.LateBinding)
}
