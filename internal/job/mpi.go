package job

// MPI is what a job's ranks are given to find each other by, if they are MPI
// programs.
type MPI uint8

const (
	MPIAuto  MPI = iota // what the program is linked with wants; all there is, if that cannot be seen
	MPINone             // nothing
	MPIPlain            // PMI through the rank's descriptor, which MPICH and its kin speak by themselves
	MPIOpen             // that, and the library by which Open MPI speaks it
	MPIPMIx             // PMIx alone
	MPICharm            // what charmrun gives programs of Charm++
	MPIs                // how many there are
)
