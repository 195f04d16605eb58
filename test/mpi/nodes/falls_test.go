//go:build mpi

package nodes

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/test/launch"
	"ibrun/test/waitfor"
)

// rankFailures runs programs in which rank 1 is killed or exits early while the other ranks wait for it. The job must
// end with the expected exit code. ibrun must print one message, which names rank 1 and the reason. Without -whole,
// pmixclient.c runs only with the libraries of Debian 13, and mpi.c only with those of this machine.
func (b *bed) rankFailures(t *testing.T, l library) {
	const killed = "was killed by signal 9 (KILL)"
	for _, fall := range []struct {
		program, how string
		code         int
		says         string
	}{
		{l.client, "before", 137, killed},
		{l.client, "inside", 137, killed},
		{l.client, "after", 137, killed},
		{l.client, "leave", 1, "exited with code 0, and without MPI_Finalize"},
		{l.mpi, "spin fall", 137, killed},
		{l.mpi, "leave", 1, "exited with code 0, and without MPI_Finalize"},
		{l.mpi, "part", 137, killed},
	} {
		if !*whole && (l.Name == "newer") != (fall.program == l.client) {
			continue
		}
		t.Run(filepath.Base(fall.program)+" "+fall.how, func(t *testing.T) {
			argv := append([]string{fall.program}, strings.Fields(fall.how)...)
			o := b.run(t, 4, 2, l.Command(t, b.Shared(), argv...)...)
			require.Equal(t, fall.code, o.Code, "%s%s", o.Stdout, o.Stderr)
			require.Len(t, ibrunLines(o), 1, o.Stderr)
			require.Contains(t, ibrunLines(o)[0], "rank 1 on node0001 ")
			require.Contains(t, ibrunLines(o)[0], fall.says)
		})
	}
}

// keepGoing kills a rank between MPI_Init and MPI_Finalize. ibrun must end the job despite --keep-going, because the
// remaining ranks would wait for the dead rank for ever.
func (b *bed) keepGoing(t *testing.T) {
	l := b.libraries[0] // package mpi has the same test for the libraries of this machine
	o := b.run(t, 4, 2, append([]string{"--keep-going"}, l.Command(t, b.Shared(), l.mpi, "spin", "fall")...)...)
	require.Equal(t, 137, o.Code, o.Stderr)
	require.Contains(t, o.Stderr,
		"rank 1 on node0001 was killed by signal 9 (KILL) before MPI_Finalize: the job ends despite --keep-going")
}

// agentFailure kills the agent of one node while all ranks communicate or wait in a PMIx fence. The job must end with
// code 125. ibrun must print one message, which names the node. Without -whole, pmixclient.c runs only with the
// libraries of Debian 13, and mpi.c only with those of this machine.
func (b *bed) agentFailure(t *testing.T, l library) {
	for _, how := range []struct {
		program, what string
		ready         func(stdout string) bool
	}{
		{l.client, "wait", func(stdout string) bool { return strings.Count(stdout, "first fence = passed") == 3 }},
		{l.mpi, "spin", func(stdout string) bool { return strings.Contains(stdout, "spinning") }},
	} {
		if !*whole && (l.Name == "newer") != (how.program == l.client) {
			continue
		}
		t.Run(filepath.Base(how.program)+" "+how.what, func(t *testing.T) {
			j := b.begin(t, launch.Program, 3, 3, l.Command(t, b.Shared(), how.program, how.what)...)
			ready := func() bool { return how.ready(j.stdout.String()) }
			waitfor.Require(t, how.what, ready)
			b.kill(t, "node0002", ":agent")
			o := j.wait(t)
			require.Equal(t, 125, o.Code, o.Stderr)
			require.Contains(t, o.Stderr, "the agent on node0002 was lost")
			require.Len(t, ibrunLines(o), 1, o.Stderr)
		})
	}
}
