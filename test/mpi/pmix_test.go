//go:build mpi

package mpi

import (
	"fmt"
	"net"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/test/fleet/suite"
	"ibrun/test/launch"
	"ibrun/test/product"
	"ibrun/test/waitfor"
)

// TestPMIx runs programs of Open MPI 4 with --mpi pmix: under one agent, under several agents, one after the other in
// each rank, and as two programs of one job. They must succeed, and standard error must be empty.
func TestPMIx(t *testing.T) {
	program := openMPI(t)
	for name, args := range map[string][]string{
		"one agent":      {"-n", "4"},
		"several agents": {"-n", "4", "--launcher", "local", "--hosts", "a:2,b,c"},
		"dealt":          {"-n", "4", "--launcher", "local", "--hosts", "a:2,b:2", "--map-by", "node"},
	} {
		const all = "ring+collectives+names"
		ibrun(t, append(args, "--mpi", "pmix", program, all)...).Went(t, suite.MPIAnswers(4, all), name)
	}
	o := ibrun(t, "-n", "2", "--launcher", "local", "--hosts", "a,b", "--mpi", "pmix", "sh", "-c",
		`"$0" ring && "$0" collectives`, program)
	o.Went(t, suite.MPIAnswers(2, "ring+collectives"), "one after the other")
	o = ibrun(t, "-n", "1", "--mpi", "pmix", program, "ring", ":", "-n", "1", program, "ring")
	o.Went(t, suite.MPIAnswers(2, "ring"), "two programs")
}

// TestPMIxIsTheDefault requires that programs of Open MPI 4 use PMIx by default. A value of a rank on another node must
// be fetched only if a message is sent to that rank. So at most eight requests for values may leave their node.
func TestPMIxIsTheDefault(t *testing.T) {
	o := ibrun(t, "-n", "4", "--launcher", "local", "--hosts", "a,b", "--stats", openMPI(t), "ring")
	require.Equal(t, 0, o.Code, o.Stderr)
	require.Regexp(t, `PMI: 4 puts, \d+ gets, \d+ fences; [1-8] questions about values left their node`, o.Stderr)
}

// TestPMIxDialects runs Open MPI with each older version of the PMIx protocol, and with two versions in one job. The
// tests unset the environment variables of newer versions (PMIX_SERVER_URI41 and so on). All jobs must succeed. The
// newest version is used by all other tests.
func TestPMIxDialects(t *testing.T) {
	const all = "collectives+names+port"
	uris := []string{"PMIX_SERVER_URI41", "PMIX_SERVER_URI4", "PMIX_SERVER_URI3"}
	for older := 1; older <= len(uris); older++ {
		for _, mixed := range []bool{false, true} {
			if mixed && older < len(uris) && !*whole {
				continue
			}
			script := "unset " + strings.Join(uris[:older], " ") + `; exec "$0" "$1"`
			if mixed { // rank 0 uses the newest dialect
				script = "[ $RANK = 0 ] || " + script
			}
			o := ibrun(t, "-n", "3", "--launcher", "local", "--hosts", "a:2,b", "--mpi", "pmix", "sh", "-c", script,
				openMPI(t), all)
			o.Went(t, suite.MPIAnswers(3, all), script)
		}
	}
}

// TestPMIxPrograms runs a job of two programs. Each rank must get the number of its program, and the size and the first
// rank of both programs. Open MPI 4 gets the number from PMIx and the other values from environment variables.
func TestPMIxPrograms(t *testing.T) {
	program := openMPI(t)
	o := ibrun(t, "-n", "2", "--mpi", "pmix", program, "programs", ":", "-n", "1", program, "programs")
	require.Equal(t, 0, o.Code, o.Stderr)
	for rank, number := range []int{0, 0, 1} {
		require.Contains(t, o.Stdout,
			fmt.Sprintf("rank %d runs program %d of 2: sizes 2 1, first ranks 0 2\n", rank, number))
	}
}

// TestPMIxAndOthers runs two programs one after the other in each rank. One of them joins the job by PMIx, the other
// one by PMI-1 or by package ibrun. The second program must fail, and ibrun must print the reason.
func TestPMIxAndOthers(t *testing.T) {
	mpi, pmi, world := `"`+openMPI(t)+`" hello`, `"`+pmi(t)+`"`, `"`+ours(t, "test/world")+`" again b`
	const why = "another program of this rank has joined the job by PMIx: start this one as a job of its own"
	for _, c := range []struct{ first, second, says string }{
		{mpi, pmi, "a program that speaks PMI was refused: " + why},
		{mpi, world, "ibrun: " + why},
		{world, mpi, "a program that speaks PMIx was refused: another program of this rank"},
		{pmi, mpi, "a program that speaks PMIx was refused: another program of this rank"},
	} {
		o := ibrun(t, "-n", "2", "--mpi", "auto", "sh", "-c",
			c.first+` && { `+c.second+`; [ $? != 0 ] && echo refused; }`)
		require.Equal(t, 0, o.Code, "%s; %s: %s%s", c.first, c.second, o.Stdout, o.Stderr)
		require.Equal(t, 2, strings.Count(o.Stdout, "refused\n"), "%s%s", o.Stdout, o.Stderr)
		require.Equal(t, 2, strings.Count(o.Stderr, c.says), "%s; %s: %s", c.first, c.second, o.Stderr)
	}
	o := ibrun(t, "-n", "2", "--mpi", "auto", "--pmi-port", "sh", "-c", mpi+`; `+pmi+` || echo refused`)
	require.Equal(t, 2, strings.Count(o.Stdout, "refused\n"), "%s%s", o.Stdout, o.Stderr)
}

// TestPMIxEventOfARank runs jobs with --on-failure restart in which rank 2 is killed. If the other ranks have
// registered a PMIx event handler, PMIx must call it with rank 2, and these ranks must go on. If they have not, ibrun
// must end the job and print that rank 2 cannot be restarted.
func TestPMIxEventOfARank(t *testing.T) {
	program := once(t, "events", func(path string) { suite.Own().PMIx(t, "testdata/pmixevents.c", path) })
	args := []string{"--launcher", "local", "-H", "a,b", "-n", "3", "--mpi", "pmix", "--on-failure", "restart", program}
	o := ibrun(t, args...)
	require.Equal(t, 137, o.Code, o.Stderr)
	require.Contains(t, o.Stderr, "rank 2 on b was killed by signal 9 (KILL)")
	require.NotContains(t, o.Stderr, "cannot be restarted")
	for rank := range 2 {
		require.Contains(t, o.Stdout, fmt.Sprintf("rank %d: rank 2 has ended\n", rank), o.Stderr)
	}
	o = ibrun(t, append(args, "without")...)
	require.Equal(t, 137, o.Code, o.Stderr)
	require.Contains(t, o.Stderr, "it uses PMI, so it cannot be restarted alone")
}

// TestPMIxRubbish opens 1000 connections to the PMIx server of a job. Most of them send invalid data, and the rest send
// nothing. The ranks must still be able to connect, and the job must succeed.
func TestPMIxRubbish(t *testing.T) {
	folder := t.TempDir()
	r := launch.Start(t, "-n", "2", "--mpi", "pmix", "sh", "-c", `[ "$PMIX_RANK" = 1 ] || echo "$PMIX_SERVER_URI41"; `+
		`until [ -e "$1/go" ]; do sleep 0.05; done; exec "$0" collectives`, openMPI(t), folder)
	uri := regexp.MustCompile(`tcp4://(.*)\n`)
	waitfor.Require(t, "rank 0 has printed the port", func() bool { return uri.MatchString(r.Out.String()) })
	at := uri.FindStringSubmatch(r.Out.String())[1]
	hello := "\xff\xff\xff\xff\xff\xff\xff\xff"
	for i := range 1000 { // the server keeps fewer connections open before their handshake
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
	require.Equal(t, 0, r.Wait(), r.Err.String())
	require.Equal(t, 2, strings.Count(r.Out.String(), "of 2: collectives\n"))
	require.Empty(t, product.Complaints(r.Err.String()))
}
