//go:build mpi

package mpi

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/waitfor"
	"ibrun/test/fleet/suite"
	"ibrun/test/product"
)

// segments are files of shared memory of ranks of Open MPI.
func segments(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob("/dev/shm/*_segment.*")
	require.NoError(t, err)
	return found
}

// Stock programs of Open MPI 4 by PMIx alone, over all kinds of agents, with nothing left behind.
func TestPMIx(t *testing.T) {
	program := openMPI(t)
	for name, args := range map[string][]string{
		"one agent":      {"-n", "4"},
		"several agents": {"-n", "4", "--launcher", "local", "--hosts", "a,b,c"},
		"dealt":          {"-n", "4", "--launcher", "local", "--hosts", "a:2,b:2", "--map-by", "node"},
	} {
		for _, what := range []string{"ring", "collectives", "names"} {
			o := ibrun(t, slices.Concat(args, []string{"--mpi", "pmix", program, what})...)
			o.went(t, says(4, what), name)
		}
	}
	o := ibrun(t, "-n", "2", "--launcher", "local", "--hosts", "a,b", "--mpi", "pmix", "sh", "-c",
		`"$0" ring && "$0" collectives && "$0" ring`, program)
	o.went(t, slices.Concat(says(2, "ring"), says(2, "collectives"), says(2, "ring")), "one after the other")
	o = ibrun(t, "-n", "2", "--mpi", "pmix", program, "ring", ":", "-n", "1", program, "ring")
	o.went(t, says(3, "ring"), "two programs")
}

// Without a word Open MPI 4 takes PMIx too, and asks only for the peers that it touches.
func TestPMIxIsTheDefault(t *testing.T) {
	o := ibrun(t, "-n", "4", "--launcher", "local", "--hosts", "a,b", "--stats", openMPI(t), "ring")
	require.Equal(t, 0, o.code, o.stderr)
	require.Regexp(t, `PMI: 4 puts, \d+ gets, \d+ fences; [1-8] questions about values left their node`, o.stderr)
}

// How a job ends does not depend on the protocol, and no file stays.
func TestPMIxEnds(t *testing.T) {
	program := openMPI(t)
	before := segments(t)
	for _, c := range mpiEnds {
		folder := t.TempDir()
		run := command(t, append([]string{"-n", "4", "--mpi", "pmix", program}, strings.Fields(c.args)...)...)
		run.Env = append(os.Environ(), "TMPDIR="+folder)
		c.judge(t, finish(t, run))
		entries, err := os.ReadDir(folder)
		require.NoError(t, err)
		require.Empty(t, entries, c.args)
		require.Equal(t, before, segments(t), c.args)
	}
}

// Open MPI speaks each dialect, the newest that its rank is told of, and ranks of several dialects
// understand each other.
func TestPMIxDialects(t *testing.T) {
	program := openMPI(t)
	uris := []string{"PMIX_SERVER_URI41", "PMIX_SERVER_URI4", "PMIX_SERVER_URI3", "PMIX_SERVER_URI21"}
	programs := []string{"collectives", "names", "port"}
	for hidden := range 2 * len(uris) {
		script := "unset none " + strings.Join(uris[:hidden%len(uris)], " ") + `; exec "$0" "$1"`
		if hidden >= len(uris) {
			script = "[ $(($RANK % 3)) = 0 ] || " + script // for the others it is the newest one
			script += `; exec "$0" "$1"`
		}
		for i, what := range programs {
			if !*whole && i != hidden%len(programs) {
				continue
			}
			o := ibrun(t, "-n", "4", "--launcher", "local", "--hosts", "a:2,b:2", "--mpi", "pmix", "sh", "-c", script,
				program, what)
			o.went(t, says(4, what), script)
		}
	}
}

// Several programs are told to each other: Open MPI 4 takes their numbers from the job information,
// and sizes and first ranks from the environment.
func TestPMIxPrograms(t *testing.T) {
	program := openMPI(t)
	o := ibrun(t, "-n", "2", "--mpi", "pmix", program, "programs", ":", "-n", "1", program, "programs")
	require.Equal(t, 0, o.code, o.stderr)
	for rank, number := range []int{0, 0, 1} {
		require.Contains(t, o.stdout,
			fmt.Sprintf("rank %d runs program %d of 2: sizes 2 1, first ranks 0 2\n", rank, number))
	}
}

// The programs of a rank speak one protocol. The first one decides; another is refused, and a line
// says why.
func TestPMIxAndOthers(t *testing.T) {
	mpi, pmi, world := `"`+openMPI(t)+`" ring`, `"`+pmi(t)+`"`, `"`+ours(t, "test/world")+`" again b`
	const why = "another program of this rank has joined the job by PMIx: start this one as a job of its own"
	for _, c := range []struct{ first, second, says string }{
		{mpi, pmi, "a program that speaks PMI was refused: " + why},
		{mpi, world, "ibrun: " + why},
		{world, mpi, "a program that speaks PMIx was refused: another program of this rank"},
		{pmi, mpi, "a program that speaks PMIx was refused: another program of this rank"},
	} {
		o := ibrun(t, "-n", "2", "--mpi", "auto", "sh", "-c",
			c.first+` && { `+c.second+`; [ $? != 0 ] && echo refused; }`)
		require.Equal(t, 0, o.code, "%s; %s: %s%s", c.first, c.second, o.stdout, o.stderr)
		require.Equal(t, 2, strings.Count(o.stdout, "refused\n"), "%s%s", o.stdout, o.stderr)
		require.Equal(t, 2, strings.Count(o.stderr, c.says), "%s; %s: %s", c.first, c.second, o.stderr)
	}
	o := ibrun(t, "-n", "2", "--mpi", "auto", "--pmi-port", "sh", "-c", mpi+`; `+pmi+` || echo refused`)
	require.Equal(t, 2, strings.Count(o.stdout, "refused\n"), "%s%s", o.stdout, o.stderr)
}

// A program that has asked, by PMIx, to be told of ranks that end goes on without them where ranks
// are restarted. One that has not ends, with a line that says why.
func TestPMIxEventOfARank(t *testing.T) {
	program := once(t, "events", func(path string) { suite.Own().PMIx(t, "testdata/pmixevents.c", path) })
	args := []string{"--launcher", "local", "-H", "a,b", "-n", "3", "--mpi", "pmix", "--on-failure", "restart", program}
	o := ibrun(t, args...)
	require.Equal(t, 137, o.code, o.stderr)
	require.Contains(t, o.stderr, "rank 2 on b was killed by signal 9 (KILL)")
	require.NotContains(t, o.stderr, "cannot be restarted")
	for rank := range 2 {
		require.Contains(t, o.stdout, fmt.Sprintf("rank %d: rank 2 has ended\n", rank), o.stderr)
	}
	o = ibrun(t, append(args, "without")...)
	require.Equal(t, 137, o.code, o.stderr)
	require.Contains(t, o.stderr, "it uses PMI, so it cannot be restarted alone")
}

// Rubbish at the port of PMIx hurts nobody: the job beside it runs and ends well.
func TestPMIxRubbish(t *testing.T) {
	folder := t.TempDir()
	r := controlled(t, "-n", "2", "--mpi", "pmix", "sh", "-c", `[ "$PMIX_RANK" = 1 ] || echo "$PMIX_SERVER_URI41"; `+
		`until [ -e "$1/go" ]; do sleep 0.05; done; exec "$0" collectives`, openMPI(t), folder)
	uri := regexp.MustCompile(`tcp4://(.*)\n`)
	waitfor.Require(t, "rank 0 has said the port", func() bool { return uri.MatchString(r.out.String()) })
	at := uri.FindStringSubmatch(r.out.String())[1]
	hello := "\xff\xff\xff\xff\xff\xff\xff\xff"
	for i := range 1000 { // more than may be silent
		conn, err := net.Dial("tcp4", at)
		require.NoError(t, err)
		defer conn.Close()
		switch i % 5 {
		case 0:
			fmt.Fprintf(conn, "%s\xff\xff\xff\xff\x00\x00\x00\x00", hello) // 4 GiB
		case 1:
			fmt.Fprintf(conn, "%s\x05\x00\x00\x00\x00\x00\x00\x00nativ", hello)
		case 2:
			fmt.Fprint(conn, strings.Repeat("rubbish", 1000))
		case 3:
			fmt.Fprint(conn, hello)
		}
	}
	require.NoError(t, os.WriteFile(folder+"/go", nil, 0o600))
	require.Equal(t, 0, r.ends(), r.err.String())
	require.Equal(t, 2, strings.Count(r.out.String(), "of 2: collectives\n"))
	require.Empty(t, product.Complaints(r.err.String()))
}
