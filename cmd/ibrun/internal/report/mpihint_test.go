package report

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/core"
	"ibrun/bootstrap/wire"
	"ibrun/internal/job"
)

func TestMPIHint(t *testing.T) {
	well := core.Outcome{AllStarted: true}
	with := func(change func(*core.Outcome)) core.Outcome {
		o := well
		change(&o)
		return o
	}
	linked := with(func(o *core.Outcome) { o.MPI.Library = "libmpi.so.40" })
	charm := with(func(o *core.Outcome) { o.MPI.Library = job.CharmNet })
	require.Contains(t, MPIHint(charm, 4, ""), "try charmrun ++n RANKS ++mpiexec ++remote-shell ibrun PROGRAM")
	require.Empty(t, MPIHint(charm, 1, ""))
	charm.MPI.SpokePMI = true // it has said initnode
	require.Empty(t, MPIHint(charm, 4, ""))
	require.Contains(t, MPIHint(well, 4, "--mpi charm"), "though --mpi charm was given")
	for _, c := range []struct {
		o     core.Outcome
		ranks uint32
		given string
		want  string // "": nothing
	}{
		{well, 4, "", ""}, // hostname
		{well, 4, "--mpi mpich", "no rank said a word of PMI, though --mpi mpich was given"},
		{well, 1, "--mpi mpich", ""},
		{linked, 4, "", "though the program is linked with libmpi.so.40"},
		{linked, 4, "--mpi mpich", "(--mpi mpich), though the program is linked with libmpi.so.40"},
		{linked, 1, "", ""},
		{with(func(o *core.Outcome) { o.MPI = job.MPIFindings{SpokePMI: true, Library: "libmpi.so.40"} }),
			4, "--mpi mpich", ""},
		{with(func(o *core.Outcome) { o.AllStarted = false }), 4, "--mpi mpich", ""},
		{with(func(o *core.Outcome) { o.Cause = core.CauseTimeout }), 4, "--mpi mpich", ""},
		{with(func(o *core.Outcome) {
			o.Cause, o.Fault = core.CauseFault, wire.Fault{What: wire.FaultRank, Status: job.Status{Code: 3}}
		}), 4, "--mpi mpich", "--mpi mpich was given"},
		{with(func(o *core.Outcome) {
			o.Cause, o.Fault = core.CauseFault, wire.Fault{What: wire.FaultRank,
				Status: job.Status{Kind: job.Signaled, Code: 11}}
		}), 4, "--mpi mpich", ""},
		{with(func(o *core.Outcome) { o.Cause, o.Fault = core.CauseFault, wire.Fault{What: wire.FaultFork} }), 4,
			"--mpi mpich", ""},
	} {
		hint := MPIHint(c.o, c.ranks, c.given)
		if c.want == "" {
			require.Empty(t, hint)
		} else {
			require.Contains(t, hint, c.want)
			require.Contains(t, hint, "rank 0 of 1")
		}
	}
}
