package e2e

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
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
	program := openMPIProgram(t)
	for name, args := range map[string][]string{
		"one agent":      {"-n", "4"},
		"several agents": {"-n", "4", "--launcher", "local", "--hosts", "a,b,c"},
		"dealt":          {"-n", "4", "--launcher", "local", "--hosts", "a:2,b:2", "--map-by", "node"},
	} {
		for _, what := range []string{"ring", "collectives", "names"} {
			o := ibrun(t, slices.Concat(args, []string{"--mpi", "pmix", program, what})...)
			require.Equal(t, 0, o.code, "%s %s: %s", name, what, o.stderr)
			require.Empty(t, o.stderr)
			require.Equal(t, 4, strings.Count(string(o.stdout), "of 4: "+what+"\n"), "%s: %s", name, o.stdout)
		}
	}
	o := ibrun(t, "-n", "2", "--launcher", "local", "--hosts", "a,b", "--mpi", "pmix", "sh", "-c",
		`"$0" ring && "$0" collectives && "$0" ring`, program)
	require.Equal(t, 0, o.code, o.stderr)
	require.Equal(t, 4, strings.Count(string(o.stdout), "of 2: ring\n"), "three programs one after the other")
	o = ibrun(t, "-n", "2", "--mpi", "pmix", program, "ring", ":", "-n", "1", program, "ring")
	require.Equal(t, 3, strings.Count(string(o.stdout), "of 3: ring\n"), o.stderr)
}

// Without a word Open MPI 4 takes PMIx too, and asks only for the peers that it touches.
func TestPMIxIsTheDefault(t *testing.T) {
	o := ibrun(t, "-n", "4", "--launcher", "local", "--hosts", "a,b", "--stats", openMPIProgram(t), "ring")
	require.Equal(t, 0, o.code, o.stderr)
	require.Regexp(t, `PMI: 4 puts, \d+ gets, \d+ fences; [1-8] questions about values left their node`, o.stderr)
}

// How a job ends does not depend on the protocol, and no file stays.
func TestPMIxEnds(t *testing.T) {
	program := openMPIProgram(t)
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

// Variables of PMIx: an outer launcher's are gone, and programs of MPICH, and those that are given
// PMI, get none.
func TestPMIxEnvironment(t *testing.T) {
	variables := func(args ...string) string {
		c := command(t, append(args, "env")...)
		c.Env = append(os.Environ(), "PMIX_RANK=77", "PMIX_SERVER_URI2=x;tcp4://1.2.3.4:5", "PMIX_MCA_gds=hash")
		o := finish(t, c)
		require.Equal(t, 0, o.code, o.stderr)
		return string(o.stdout)
	}
	both := variables("-n", "2")
	for _, want := range []string{
		`PMIX_NAMESPACE=ibrun-[0-9a-f]{32}`, `PMIX_RANK=[01]`, `PMIX_SERVER_URI41=ibrun\.0;tcp4://127\.0\.0\.1:\d+`,
		`PMIX_SERVER_URI21=ibrun\.0;tcp4://127\.0\.0\.1:\d+`, `PMI_FD=3`, `FLUX_JOB_ID=\d+`,
	} {
		require.Regexp(t, `(?m)^`+want+`$`, both)
	}
	require.NotContains(t, both, "PMIX_RANK=77")
	require.NotContains(t, both, "PMIX_SERVER_URI2=")
	alone := variables("-n", "2", "--mpi", "pmix")
	require.NotRegexp(t, `(?m)^(PMI_FD|FLUX_PMI)`, alone)
	require.Contains(t, alone, "PMIX_NAMESPACE=")
	for _, mpi := range []string{"mpich", "pmi2", "none", "openmpi"} {
		require.NotContains(t, variables("-n", "2", "--mpi", mpi), "PMIX_NAMESPACE", mpi)
	}
	require.Contains(t, variables("-n", "1"), "PMIX_NAMESPACE=", "it may spawn programs")
}

// Open MPI speaks each dialect, the newest that its rank is told of, and ranks of several dialects
// understand each other.
func TestPMIxDialects(t *testing.T) {
	program := openMPIProgram(t)
	uris := []string{"PMIX_SERVER_URI41", "PMIX_SERVER_URI4", "PMIX_SERVER_URI3", "PMIX_SERVER_URI21"}
	for hidden := range 2 * len(uris) {
		script := "unset none " + strings.Join(uris[:hidden%len(uris)], " ") + `; exec "$0" "$1"`
		if hidden >= len(uris) {
			script = "[ $(($RANK % 3)) = 0 ] || " + script // for the others it is the newest one
			script += `; exec "$0" "$1"`
		}
		for _, what := range []string{"collectives", "names", "port"} {
			o := ibrun(t, "-n", "4", "--launcher", "local", "--hosts", "a:2,b:2", "--mpi", "pmix", "sh", "-c", script,
				program, what)
			require.Equal(t, 0, o.code, "%s: %s", script, o.stderr)
			require.Equal(t, 4, strings.Count(string(o.stdout), "of 4: "+what+"\n"), "%s: %s", script, o.stdout)
		}
	}
}

// Several programs are told to each other: Open MPI 4 takes their numbers from the job information,
// and sizes and first ranks from the environment.
func TestPMIxPrograms(t *testing.T) {
	program := openMPIProgram(t)
	o := ibrun(t, "-n", "2", "--mpi", "pmix", program, "programs", ":", "-n", "1", program, "programs")
	require.Equal(t, 0, o.code, o.stderr)
	for rank, number := range []int{0, 0, 1} {
		require.Contains(t, string(o.stdout),
			fmt.Sprintf("rank %d runs program %d of 2: sizes 2 1, first ranks 0 2\n", rank, number))
	}
}

// The programs of a rank speak one protocol. The first one decides; another is refused, and a line
// says why.
func TestPMIxAndOthers(t *testing.T) {
	openMPI, pmi := openMPIProgram(t), pmiClient(t)
	one := stage{"one node", []string{"-n", "2", "--mpi", "auto"}}
	mpi := `"` + openMPI + `" ring`
	const why = "another program of this rank has joined the job by PMIx: start this one as a job of its own"
	for _, c := range []struct {
		first, second, says string
	}{
		{mpi, `"` + pmi + `"`, "a program that speaks PMI was refused: " + why},
		{mpi, `"$0" :world again b`, "ibrun: " + why},
		{`"$0" :world again b`, mpi, "a program that speaks PMIx was refused: another program of this rank"},
		{`"` + pmi + `"`, mpi, "a program that speaks PMIx was refused: another program of this rank"},
	} {
		o := scripted(t, one, c.first+` && { `+c.second+`; [ $? != 0 ] && echo refused; }`)
		require.Equal(t, 0, o.code, "%s; %s: %s%s", c.first, c.second, o.stdout, o.stderr)
		require.Equal(t, 2, strings.Count(string(o.stdout), "refused\n"), "%s%s", o.stdout, o.stderr)
		require.Equal(t, 2, strings.Count(o.stderr, c.says), "%s; %s: %s", c.first, c.second, o.stderr)
	}
	port := stage{"port", []string{"-n", "2", "--mpi", "auto", "--pmi-port"}}
	o := scripted(t, port, mpi+`; "`+pmi+`" || echo refused`)
	require.Equal(t, 2, strings.Count(string(o.stdout), "refused\n"), "%s%s", o.stdout, o.stderr)
}

// Rubbish at the port of PMIx hurts nobody: the job beside it runs and ends well.
func TestPMIxRubbish(t *testing.T) {
	folder := t.TempDir()
	c := command(t, "-n", "2", "--mpi", "pmix", "sh", "-c",
		`[ "$PMIX_RANK" = 1 ] || { echo "$PMIX_SERVER_URI41" > "$1/part"; mv "$1/part" "$1/at"; }; `+
			`until [ -e "$1/go" ]; do sleep 0.05; done; exec "$0" collectives`, openMPIProgram(t), folder)
	done := make(chan outcome)
	go func() { done <- finish(t, c) }()
	eventually(t, patience/2, "the port is not told", func() bool {
		_, err := os.Stat(folder + "/at")
		return err == nil
	})
	uri, err := os.ReadFile(folder + "/at")
	require.NoError(t, err)
	_, at, _ := strings.Cut(strings.TrimSpace(string(uri)), "tcp4://")
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
	o := <-done
	require.Equal(t, 0, o.code, o.stderr)
	require.Equal(t, 2, strings.Count(string(o.stdout), "of 2: collectives\n"))
	require.Empty(t, o.stderr)
}
