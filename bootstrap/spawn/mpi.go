package spawn

import (
	"hash/fnv"
	"os"
	"strings"

	"ibrun/bootstrap/core"
	"ibrun/internal/job"
	"ibrun/internal/libpmi"
	"ibrun/internal/safefile"
)

// library is what a node's ranks are given of Open MPI's side of PMI.
type library struct {
	file *os.File // libpmi, open until the agent ends; nil if ranks do not get it; guarded by Set.mu
	err  error    // reason if file is nil because of an error
}

// kind is what a program has to do with MPI.
type kind struct {
	open, mpich bool
	pmix        bool   // a client of PMIx without MPI
	soname      string // by which it was recognized
	charm       bool   // of Charm++'s layer netlrts
	launcher    bool   // it starts MPI programs itself
	names       string // a launcher that its command line or its script names; empty: none
}

// linked says which MPI library a program is linked with. Of a script, of what
// loads its libraries later and of what cannot be read it says nothing.
func linked(path string) kind {
	names, err := neededLibraries(path)
	if err != nil {
		return kind{}
	}
	return recognize(names)
}

// recognize finds an MPI library by its name: libmpi.so.40 and its languages are
// Open MPI's, libmpich.so and the libmpi.so.12 of MPICH's agreement with its kin
// are MPICH's. A program of libpmix alone is one that uses PMIx by itself.
func recognize(libraries []string) (found kind) {
	for _, name := range libraries {
		switch {
		case strings.HasPrefix(name, "libmpich"), strings.HasPrefix(name, "libmpi") && strings.HasSuffix(name, ".so.12"):
			return kind{mpich: true, soname: name}
		case strings.HasPrefix(name, "libmpi") && strings.HasSuffix(name, ".so.40"):
			return kind{open: true, soname: name}
		case name == "libpmix.so.2":
			found = kind{pmix: true, soname: name}
		}
	}
	return found
}

// needs is what a rank is given to find its peers by.
type needs struct{ pmi, libpmi, pmix, charm, resizes bool }

// needs returns the MPI interfaces that the ranks of p are given. The option --mpi selects them, or, without it, the
// kind of the program at path. A launcher such as mpirun gets none, because its own ranks must not join this job. A
// program of unknown kind may run a launcher, and gets all interfaces: mpirun fails if it finds only FLUX_JOB_ID, but
// not if it also finds PMIx (seen with Open MPI 4.1.4 and 5.0.7).
func (s *Set) needs(path string, p *job.Program) needs {
	switch s.cfg.Job.MPI {
	case job.MPINone:
		return needs{}
	case job.MPIOpen:
		return needs{pmi: true, libpmi: true}
	case job.MPIPMIx:
		return needs{pmix: true}
	case job.MPICharm:
		return needs{charm: true, resizes: resizes(path)}
	case job.MPIAuto:
		switch k := s.kind(path, p); {
		case k.charm:
			return needs{charm: true, resizes: resizes(path)}
		case k.launcher:
			return needs{}
		case k.open || k.pmix:
			return needs{pmi: true, libpmi: true, pmix: true}
		case k.mpich || k.names != "":
			return needs{pmi: true}
		}
		return needs{pmi: true, libpmi: true, pmix: true}
	}
	return needs{pmi: true}
}

// prepareMPI adds to a rank's environment what Open MPI needs. The error is why a program that was said to
// need it cannot have it.
func (s *Set) prepareMPI(env *environment, r *rank, n needs) error {
	if n.charm {
		return s.prepareCharm(env, r, n.resizes)
	}
	serves := false
	if n.pmix {
		if err := s.offerPMIx(); err != nil {
			if s.cfg.Job.MPI == job.MPIPMIx {
				return err
			}
		} else {
			serves = true
			s.PMIx.environ(env, r, s.cfg)
		}
	}
	if n.libpmi {
		file, err := s.offer()
		switch {
		case err == nil:
			serves = true
			env.set("FLUX_PMI_LIBRARY_PATH=" + libpmi.Path(file))
		case s.cfg.Job.MPI == job.MPIOpen:
			return err
		}
	}
	if !serves {
		return nil
	}
	env.set("FLUX_JOB_ID=" + num(openJob(s.cfg.Job.ID))) // without it, each process of Open MPI 4 starts as a singleton
	if int(s.cfg.Node.Ranks) > s.machine.Allowed.Len() {
		env.suggest("OMPI_MCA_mpi_yield_when_idle=1") // those who wait must not keep those who work from the CPU
	}
	if s.cfg.Job.Launch.Launcher == "local" && s.cfg.Job.Nodes > 1 {
		env.suggest("OMPI_MCA_btl=self,tcp") // vader's shared memory is named by host and place on the node, which are not unique here
	}
	return nil
}

// offer opens libpmi, once.
func (s *Set) offer() (*os.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mpi.file == nil && s.mpi.err == nil {
		s.mpi.file, s.mpi.err = libpmi.Open(os.TempDir(), safefile.SharedMemory)
	}
	return s.mpi.file, s.mpi.err
}

// kind returns how the program p, whose file is path, uses MPI. If p uses a library of MPI, PMIx or Charm++, kind
// reports the library by MPIFindings. If the job is verbose, the first node also prints the kind as a warning.
func (s *Set) kind(path string, p *job.Program) kind {
	k := linked(path)
	if k == (kind{}) && startsByCharmrun(path, p.Env) {
		k = kind{charm: true, soname: job.CharmNet}
	} else if k == (kind{}) {
		k.launcher = isLauncher(p.Argv[0]) || isLauncher(path)
		k.names = namedLauncher(path, p.Argv, p.Dir)
	}
	if k.mpich || k.open || k.pmix || k.charm {
		s.cfg.Events.MPIFindings(core.MPIFindings{MPIFindings: job.MPIFindings{Library: k.soname}})
	}
	if s.cfg.Job.Launch.Verbose && s.cfg.NodeIndex == 0 {
		s.cfg.Events.Warn(p.Argv[0] + " " + k.String())
	}
	return k
}

func (k kind) String() string {
	switch {
	case k.mpich:
		return "is linked with " + k.soname + ": MPICH, which speaks PMI"
	case k.open:
		return "is linked with " + k.soname + ": Open MPI, which gets PMIx and libpmi"
	case k.pmix:
		return "is linked with " + k.soname + ": it gets PMIx"
	case k.charm:
		return "is of " + k.soname + ": its agent is its charmrun"
	case k.launcher:
		return "is a launcher: it gets nothing of PMI, which its own ranks would see"
	case k.names != "":
		return "is not linked with an MPI library, and names the launcher " + k.names + ": what it starts can use MPICH; for Open MPI try --mpi openmpi"
	}
	return "is not linked with an MPI library: what it starts can use MPICH or Open MPI"
}

// openJob is the number by which Open MPI knows a job: it names shared memory, so
// that it must be unique on a host. Of its two halves Open MPI keeps 15 bits each
// in places, and the lower one is not 0, which would be its own daemons'.
func openJob(id string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id))
	return h.Sum32()&0x7fff7fff | 1
}
