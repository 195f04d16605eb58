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

// falls runs programs in which rank 1 ends early while others wait for it. The job must end with the right code and one
// line of ibrun. By default the client of PMIx runs with the newer library only, and MPI programs with the other.
func (b *bed) falls(t *testing.T, l library) {
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
			require.Len(t, own(o), 1, o.Stderr)
			require.Contains(t, own(o)[0], "rank 1 on node0001 ")
			require.Contains(t, own(o)[0], fall.says)
		})
	}
}

// keepGoing kills a rank before MPI_Finalize, which must end the job despite --keep-going.
func (b *bed) keepGoing(t *testing.T) {
	l := b.libraries[0] // package mpi tests the other library
	o := b.run(t, 4, 2, append([]string{"--keep-going"}, l.Command(t, b.Shared(), l.mpi, "spin", "fall")...)...)
	require.Equal(t, 137, o.Code, o.Stderr)
	require.Contains(t, o.Stderr,
		"rank 1 on node0001 was killed by signal 9 (KILL) before MPI_Finalize: the job ends despite --keep-going")
}

// agent kills the agent of a node while ranks wait for each other. The job must end with one line that names the node.
func (b *bed) agent(t *testing.T, l library) {
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
			require.Len(t, own(o), 1, o.Stderr)
		})
	}
}
