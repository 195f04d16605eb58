//go:build mpi

package nodes

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/test/fleet/suite"
)

// programs runs unmodified programs of Open MPI without any MPI option of ibrun. They must succeed.
func (b *bed) programs(t *testing.T, l library) {
	for i, job := range []struct {
		what         string
		ranks, nodes int
	}{
		{"alltoall+split+names+port", 5, 3}, {"sessions", 3, 2},
		{"hello", 1, 1}, {"alltoall", 8, 4}, {"ring+names", 4, 4}, {"allreduce+port", 4, 2},
	} {
		if job.what == "sessions" && l.Name == "own" {
			continue // Open MPI 4 implements MPI 3.1, which has no sessions
		}
		if i > 1 && !*whole {
			break
		}
		t.Run(fmt.Sprintf("%s of %d", job.what, job.ranks), func(t *testing.T) {
			o := b.run(t, job.ranks, job.nodes, l.Command(t, b.Shared(), l.mpi, job.what)...)
			o.Went(t, suite.MPIAnswers(job.ranks, job.what))
		})
	}
	t.Run("spawn", func(t *testing.T) { b.spawn(t, l) })
	t.Run("abort", func(t *testing.T) { b.abort(t, l) })
	t.Run("twice", func(t *testing.T) { b.twice(t, l) })
	t.Run("python", func(t *testing.T) { b.python(t, l) })
	if l.Name == "newer" { // Open MPI 4.1.4 crashes in shmem_finalize, also under its own oshrun
		t.Run("shmem", func(t *testing.T) {
			program := l.SHMEM(t, "../testdata/shmem.c", filepath.Join(b.Shared(), l.Name+"-shmem"))
			b.run(t, 3, 2, l.Command(t, b.Shared(), program)...).Went(t, suite.MPIAnswers(3, "shmem"))
		})
	}
}

// spawn runs programs that start two more ranks by MPI_Comm_spawn and communicate with them. The first program has two
// ranks. The second program has one rank and is started by a shell, so that ibrun cannot detect its MPI library.
func (b *bed) spawn(t *testing.T, l library) {
	child := l.Command(t, b.Shared(), l.mpi, "child")
	o := b.run(t, 2, 2, append(l.Command(t, b.Shared(), l.mpi, "spawn"), child...)...)
	o.Went(t, append(suite.MPIAnswers(2, "child"), suite.MPIAnswers(2, "spawn")...))
	alone := l.Command(t, b.Shared(), "sh", "-c", `"$@"; exit $?`, "sh", l.mpi, "spawn")
	o = b.run(t, 1, 1, append(alone, child...)...)
	o.Went(t, append(suite.MPIAnswers(2, "child"), suite.MPIAnswers(1, "spawn")...))
}

// abort runs a program whose rank 1 calls MPI_Abort with code 7. ibrun must end the job with exit code 7 and print one
// message.
func (b *bed) abort(t *testing.T, l library) {
	o := b.run(t, 3, 2, l.Command(t, b.Shared(), l.mpi, "abort", "7")...)
	require.Equal(t, 7, o.Code, o.Stderr)
	require.Len(t, ibrunLines(o), 1, o.Stderr)
	require.Contains(t, ibrunLines(o)[0], "rank 1 on node0001 ")
	require.Contains(t, ibrunLines(o)[0], "aborted the job with code 7")
}

// twice runs two MPI programs in each rank, one after the other. Both programs must succeed.
func (b *bed) twice(t *testing.T, l library) {
	argv := l.Command(t, b.Shared(), "sh", "-c", `"$0" ring && "$0" alltoall`, l.mpi)
	b.run(t, 3, 2, argv...).Went(t, suite.MPIAnswers(3, "ring+alltoall"))
}

// python runs a Python script that loads Open MPI by mpi4py. It must succeed, although ibrun cannot detect that a
// Python script uses Open MPI.
func (b *bed) python(t *testing.T, l library) {
	script, err := filepath.Abs("../testdata/peers.py")
	require.NoError(t, err)
	b.run(t, 2, 2, l.Command(t, b.Shared(), "/usr/bin/python3", script)...).Went(t, suite.MPIAnswers(2, "mpi4py"))
}
