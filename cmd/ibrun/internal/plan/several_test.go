package plan

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/cmd/ibrun/internal/cli"
	"ibrun/internal/job"
)

// Programs that name hosts of their own run there (mpirun, hydra); one list is everybody's.
func TestHostsOfEachProgram(t *testing.T) {
	file := filepath.Join(t.TempDir(), "hosts")
	require.NoError(t, os.WriteFile(file, []byte("c:2\nd\n"), 0o600))
	for line, want := range map[string]string{
		"-host a true : -host b true":                               "a=0 b=1",
		"-n 2 -host b:2 true : -n 3 -host a:4,b:4 true":             "b=0,1 a=2,3,4",
		"-n 2 -H a,b true : -n 2 -H a true":                         "a=0,2,3 b=1",
		"-n 2 -H a,b true : -n 2 -H b,c true : -n 1 -H a true":      "a=0,4 b=1,2 c=3",
		"-n 2 -f FILE true : -n 2 -H d true":                        "c=0,1 d=2,3",
		"-n 4 -H a:2,b:2 true : -n 4 -H a:4,b:4 true":               "a=0,1,4,5 b=2,3,6,7",
		"-n 4 -H a:2,b:2 --map-by node true : -n 4 -H b:4,a:4 true": "a=0,2,5,7 b=1,3,4,6",
		"-n 2 -H a,x true : -n 2 -H x,b --exclude x true":           "a=0,1 b=2,3",
		"-n 1 -H a:2,b:2 true : -n 3 true":                          "a=0,1 b=2,3",
		"-n 1 true : -n 3 -H a:2,b:2 true":                          "a=0,1 b=2,3",
		"-ppn 2 -n 2 -H a,b true : -n 4 -H b,c true":                "a=0,1 b=2,3 c=4,5",
	} {
		p := mustPlan(t, strings.Fields(strings.ReplaceAll(line, "FILE", file))...)
		require.Equal(t, want, ranksByNode(p), line)
		require.Equal(t, p.Nodes.At(0).Host, p.Job.FirstHost)
		first := uint32(0)
		for _, prog := range p.Job.Programs {
			require.Equal(t, job.Rank(first), prog.First)
			first += prog.Count
		}
		require.Equal(t, p.Job.Size, first)
	}
	for line, why := range map[string]string{
		"-H a true : -H b true : true":                     "program 2 (true) has no hosts",
		"-H a true : -f FILE -H b true":                    "both name hosts",
		"-H a true : -H b --exclude b true":                "--exclude leaves no host to program 1",
		"-H a true : -H b --spares 1 true":                 "whose are held back",
		"-n 1 -H a:4 -o 1 true : -n 1 -H b true":           "whose slots are skipped",
		"-H a,b true : -H a,b --min-nodes 1 true":          "with several programs",
		"-n 2 -H a:1 --nooversubscribe true : -H a:1 true": "a would get 3 ranks on 1 slot",
	} {
		refuses(t, map[string]string{strings.ReplaceAll(line, "FILE", file): why})
	}
	require.Len(t, mustPlan(t, strings.Fields("-n 2 -H a:1 true : -n 1 -H a:1 true")...).Warnings, 1)
	require.Empty(t, mustPlan(t, strings.Fields("-n 2 -H a:2 true : -n 1 -H b:1 true")...).Warnings)
}

// In a file of programs, too; hosts before it are for those that have none.
func TestHostsInAConfigFile(t *testing.T) {
	for line, want := range map[string]string{
		"-H c:2 -configfile f": "c=0 a=1 b=2",
		"-H c:2 --app f":       "c=0 a=1 b=2",
		"-configfile f":        "",
	} {
		r, err := cli.Parse(strings.Fields(line), func(string) ([]byte, error) {
			return []byte("true\n-H a true\n-H b true\n"), nil
		})
		if want == "" {
			require.ErrorContains(t, err, "program 0 (true) has no hosts")
			continue
		}
		require.NoError(t, err)
		p, err := New(r, around(t), Identity{})
		require.NoError(t, err)
		require.Equal(t, want, ranksByNode(p))
	}
}

// Agents of a small job know all hosts, in the order of its nodes, where ranks may ask for them.
func TestHosts(t *testing.T) {
	for args, want := range map[string]string{
		"-H n[09-10]:2,u@front true":           "n[09-10],front",
		"-H n[09-10]:2,front --mpi pmix true":  "n[09-10],front",
		"-H n[09-10]:2,front --mpi mpich true": "",
		"-H n[1-1024] true":                    "n[1-1024]",
		"-H n[1-1024],m true":                  "",
		"-H n[1-9]:1024 -n 1 true":             "n1",
	} {
		require.Equal(t, want, mustPlan(t, strings.Fields(args)...).Job.Hosts, args)
	}
}
