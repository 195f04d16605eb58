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

// Options of mpirun, hydra and srun, each with its meaning there.
func TestPlacementOfOtherLaunchers(t *testing.T) {
	places(t, map[string]string{
		"--pernode -H a:4,b:4 true":                    "a=0 b=1",
		"--pernode -n 1 -H a:4,b:4 true":               "a=0",
		"--bynode -n 4 -H a:4,b:4 true":                "a=0,2 b=1,3",
		"--byslot -n 5 -H a:4,b:4 true":                "a=0,1,2,3 b=4",
		"--nodes 2 -H a:4,b:4,c:4 true":                "a=0 b=1",
		"--nodes 2 -n 6 -H a:4,b:4,c:4 true":           "a=0,1,2,3 b=4,5",
		"--nodes 3 -n 6 -H a:4,b:4,c:4 true":           "a=0,1,2,3 b=4 c=5",
		"--nodes 2 -ppn 3 -H a,b,c true":               "a=0,1,2 b=3,4,5",
		"--nodes 2-9 -n 3 -H a:4,b:4,c:4 true":         "a=0 b=1 c=2",
		"--nodes 3 -n 2 -H a:4,b:4,c:4 true":           "a=0 b=1",
		"--nodes 2 -n 4 -m cyclic -H a:4,b:4,c:4 true": "a=0,2 b=1,3",
		"-N 2 -n 4 -ppn 2 -H a,b,c true":               "a=0,1 b=2,3",         // both come to the same
		"-N 4 -n 8 -H a:4,b:4 true":                    "a=0,1,2,3 b=4,5,6,7", // there are not 4 nodes
		"-N4 -H a,b true":                              "a=0,1,2,3 b=4,5,6,7",
		"-N 2 --ntasks-per-node 3 -H a,b,c true":       "a=0,1,2 b=3,4,5", // there are not 2 on each
		"-N 1 -n 3 -H a:4,b:4 true":                    "a=0,1,2",         // more than one on each
		"-N 1-2 -n 4 -H a:2,b:2,c:2 true":              "a=0,1 b=2,3",
		"-N 3 -n 9 -H a:3,b:3,c:3 true":                "a=0,1,2 b=3,4,5 c=6,7,8",
	})
	refuses(t, map[string]string{
		"--nodes 3 -H a,b true":              "--nodes 3: the list has 2 hosts",
		"--nodes 0 -H a,b true":              "not a whole number",
		"--nodes 3-2 -H a,b,c true":          "not a range",
		"--nodes 2 -N 2 -H a,b true":         "contradicts --nodes",
		"--bynode --map-by slot -H a,b true": "contradicts --bynode",
		"--pernode -ppn 2 -H a,b true":       "contradicts --pernode",
		"--pernode=2 -H a,b true":            "takes no value",
		"-N 2 -H a:4,b:4,c:4 true":           "--nodes 2 or -ppn 2",
		"-N 2 -n 2 -H a:2,b:2,c:2 true":      "--nodes 2 or -ppn 2",
		"-N 3 -n 9 -H a,b true": "neither nodes, as in srun (the list has 2 hosts), nor ranks per node, " +
			"as in mpirun (9 ranks would",
		"-N 3 --ntasks-per-node 4 -H a,b true":   "4 ranks per node are asked for besides",
		"--nodes 1 -H a true : -H b true":        "one list",
		"--oversubscribe --nooversubscribe true": "contradicts",
	})
	require.Contains(t, mustPlan(t, "-N", "4", "-H", "a,b", "true").Warnings[0],
		"-N 4: the list has 2 hosts, so it is ranks per node, as in mpirun")
	require.Contains(t, mustPlan(t, "-N", "2", "-ppn", "1", "-H", "a,b,c", "true").Warnings[0],
		"so it is nodes, as in srun")
}

func TestRankFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ranks")
	write := func(text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o600)) }
	write("rank 1=b slot=1:0-2\nrank 0=a slot=0\nrank 2=a slot=0:*;1:1\n")
	p := mustPlan(t, "--rankfile", file, "true")
	require.Equal(t, "a=0,2 b=1", ranksByNode(p))
	require.Equal(t, []string{"0", "1:0-2", "0:*;1:1"}, p.Job.Binding.Slots)
	p = mustPlan(t, "-rf", file, "-n", "2", "-H", "x,b,a", "true")
	require.Equal(t, "a=0 b=1", ranksByNode(p))
	require.Equal(t, "a", p.Job.FirstHost)
	p = mustPlan(t, "-rf", file, "-n", "1", "true", ":", "-n", "2", "A=1", "true")
	require.Equal(t, job.Rank(1), p.Job.Programs[1].First)
	write("rank 0=+n1 slot=2\nrank 1=+n0 slot=2\n")
	require.Equal(t, "b=0 a=1", ranksByNode(mustPlan(t, "-rf", file, "-H", "a,b", "true")))
	for line, why := range map[string]string{
		"-rf FILE":                      "+n1 is a host of a list",
		"-rf FILE -H a":                 "rank 0: no such host in the list: +n1",
		"-rf FILE -H a,b -n 3":          "names 2 ranks",
		"-rf FILE -H a,b -ppn 1":        "leave out the other options",
		"-rf FILE -H a,b --map-by core": "leave out the other options",
		"-rf FILE -H a,b -N 2":          "leave out the other options",
		"-rf /nowhere/file":             "rank file /nowhere/file: no such file",
		"-rf FILE -H a true : -H b":     "one list",
	} {
		refuses(t, map[string]string{strings.ReplaceAll(line, "FILE", file) + " true": why})
	}
}

func TestSlurmTime(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"10": 10 * time.Minute, "1:30": 90 * time.Second, "1:02:03": time.Hour + 2*time.Minute + 3*time.Second,
		"1-12": 36 * time.Hour, "2-0:30": 48*time.Hour + 30*time.Minute,
		"1-1:1:1": 25*time.Hour + time.Minute + time.Second, "0": 0, "UNLIMITED": 0,
	} {
		require.Equal(t, want, mustPlan(t, "--time", text, "true").Policy.Timeout, text)
	}
	for _, text := range []string{"", "x", "1:2:3:4", "1-2:3:4:5", "10m", "-1", "1-", "99999999"} {
		_, err := planOf(t, "--time", text, "true")
		require.ErrorContains(t, err, "not a time of srun's", text)
	}
	_, err := planOf(t, "--timeout", "5", "--time", "1", "true")
	require.ErrorContains(t, err, "contradicts --timeout")
}

func TestMultiProg(t *testing.T) {
	file := filepath.Join(t.TempDir(), "multi")
	require.NoError(t, os.WriteFile(file, []byte("# who  what\n"+
		"0,4\ttrue 'a  %t' \\\n  %t-%o 50%\n\n"+
		"1-2 true plain 100%\n"+
		"* sh -c 'echo %t'\n"), 0o600))
	p := mustPlan(t, "-n", "7", "--multi-prog", file)
	type part struct {
		first, count, app, offset uint32
		expand                    bool
		argv                      string
	}
	var got []part
	for _, prog := range p.Job.Programs {
		got = append(got, part{uint32(prog.First), prog.Count, prog.App, prog.Offset, prog.Expand,
			strings.Join(prog.Argv, "|")})
	}
	require.Equal(t, []part{
		{0, 1, 0, 0, true, "true|a  %%t|%t-%o|50%%"},
		{1, 2, 1, 0, false, "true|plain|100%"},
		{3, 1, 2, 0, false, "sh|-c|echo %t"},
		{4, 1, 0, 1, true, "true|a  %%t|%t-%o|50%%"},
		{5, 2, 2, 1, false, "sh|-c|echo %t"},
	}, got)
	for text, why := range map[string]string{
		"":                      "is empty",
		"# nothing\n":           "names no program",
		"0 true\n":              "no line names rank 1 of 3",
		"0-2 true\n1 true\n":    "rank 1 stands in two lines",
		"0-2\n":                 ":1: no program after the ranks 0-2",
		"\n0-x true\n":          ":2: 0-x is no list of ranks",
		"0-2 tr'ue\n":           "is not closed",
		"0-2 no-such-program\n": "not found in PATH",
	} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		_, err := planOf(t, "-n", "3", "--multi-prog", file)
		require.ErrorContains(t, err, why, text)
	}
	_, err := planOf(t, "-n", "3", "--multi-prog", file, "argument")
	require.ErrorContains(t, err, "leave out argument")
	_, err = planOf(t, "--multi-prog", file, ":", "true")
	require.ErrorContains(t, err, "write it alone")
}

// No file makes the reader fail otherwise than by saying so; every rank has one program.
func FuzzMultiProg(f *testing.F) {
	for _, s := range []string{"0-3 a %t\n", "* a\n", "0,2 'a b' %o\\\n x\n1 b\n# c", "9999999-99999999 a"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		lines, err := progLines("f", b)
		if err != nil {
			return
		}
		programs, err := multiPrograms(lines, 5)
		if err != nil {
			return
		}
		next := uint32(0)
		for _, p := range programs {
			require.Equal(t, job.Rank(next), p.First)
			require.NotEmpty(t, p.Argv)
			next += p.Count
		}
		require.Equal(t, uint32(5), next)
	})
}

func TestOutputFilename(t *testing.T) {
	at := around(t)
	out := func(line ...string) job.Output { return planAt(t, at, append(line, "true")...).Job.Output }
	require.Equal(t, job.Output{
		StdoutFile: at.Cwd + "/o/1/rank.%1r/stdout", StderrFile: at.Cwd + "/o/1/rank.%1r/stderr",
		Copy: true, Dirs: true,
	}, out("-n", "10", "--output-filename", "o"))
	require.Equal(t, job.Output{StdoutFile: "/o%%r/rank.%2r/stdout", StderrFile: "/o%%r/rank.%2r/stderr", Dirs: true},
		out("-n", "11", "--output-filename", "/o%r:nojobid,nocopy"))
	require.Equal(t, job.Output{StdoutFile: "/o/1/rank.%1r/stdout", Merge: true, Copy: true, Dirs: true},
		out("--output-filename", "/o:copy", "--merge-stderr-to-stdout"))
	require.Equal(t, "true.4%%.%j", out("--output", "%x.4%%.%j").StdoutFile)
	require.Equal(t, "a%%b.%4r", out("--output", "%x.%4r", "-J", "a%b").StdoutFile)
	refuses(t, map[string]string{
		"--output-filename o --output x true": "contradicts --output", "--output-filename o:x true": "is not known",
		"--output-filename :nocopy true": "no file is named", "-J a/b true": "is no name", "--output %5 true": "after %",
	})
}

func TestPrependPattern(t *testing.T) {
	refuses(t, map[string]string{
		"-prepend-pattern %x true": "after %", "-prepend-pattern %r -l true": "contradicts -l",
		"-prepend-pattern %h --min-nodes 1 -H a,b true": "contradicts --min-nodes",
	})
}

func TestNotesOfSlurm(t *testing.T) {
	for _, line := range []string{"--mem 4G", "--mem=512", "--mem-per-cpu 100m", "--exclusive", "--exclusive=user"} {
		require.Empty(t, mustPlan(t, append(strings.Fields(line), "true")...).Warnings, line)
	}
	refuses(t, map[string]string{
		"--mem 4X true": "not an amount", "--mem G true": "not an amount",
		"--exclusive=x true": "write user, mcs or topo",
	})
}
