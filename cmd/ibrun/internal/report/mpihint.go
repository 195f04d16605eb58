package report

import (
	"fmt"

	"ibrun/bootstrap/core"
	"ibrun/bootstrap/wire"
	"ibrun/internal/job"
)

// MPIHint is a hint for those whose ranks may each have believed to be rank 0 of
// 1, which an MPI program does that nobody has told otherwise; "" if nothing
// points to it. given is what the user said of MPI: --mpi mpich; empty: nothing.
//
// There is reason to think so if several ranks ended by themselves, none said a
// word of PMI, and either the user was sure that they would or a program is
// linked with an MPI library. Ranks that were killed have other troubles.
func MPIHint(o core.Outcome, ranks uint32, given string) string {
	byThemselves := o.Cause == core.CauseNone || o.Cause == core.CauseFault && o.Fault.What == wire.FaultRank &&
		o.Fault.Status.Kind == job.Exited
	if ranks < 2 || !o.AllStarted || !byThemselves || o.MPI.SpokePMI {
		return ""
	}
	if o.MPI.Library == job.CharmNet {
		return "no rank has connected to its agent, though the program looks like one of " + job.CharmNet +
			": if each rank believed to be the only one, " +
			"try charmrun ++n RANKS ++mpiexec ++remote-shell ibrun PROGRAM"
	}
	if given == "--mpi charm" {
		return "no rank has connected to its agent, though --mpi charm was given: the program may be of another " +
			"layer of Charm++ than netlrts; try --mpi auto"
	}
	const then = "if each believed to be rank 0 of 1, "
	switch {
	case o.MPI.Library != "" && given != "":
		return fmt.Sprintf("no rank said a word of PMI (%s), though the program is linked with %s: %sit wants "+
			"another word than that; try --mpi auto", given, o.MPI.Library, then)
	case o.MPI.Library != "":
		return fmt.Sprintf("no rank said a word of PMI, though the program is linked with %s: %sits library needs "+
			"something else to start by; see what with: ibrun -v", o.MPI.Library, then)
	case given != "":
		return fmt.Sprintf("no rank said a word of PMI, though %s was given: %sthe program is built with another MPI "+
			"library; see which with: ldd PROGRAM | grep libmpi", given, then)
	}
	return ""
}
