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

// library is the PMI library that ranks with Open MPI load.
type library struct {
	file *os.File // libpmi, open until the agent ends; nil if ranks do not get it; guarded by Set.mu
	err  error    // reason if file is nil because of an error
}

// kind describes how a program uses MPI.
type kind struct {
	open, mpich bool
	pmix        bool   // a client of PMIx without MPI
	soname      string // name of the shared library by which the program was recognized
	charm       bool   // a Charm++ program with the layer netlrts
	launcher    bool   // it starts MPI programs itself
	names       string // launcher that its command line or script names; "" if it names none
}

// linked returns the kind of the program at path by the shared libraries that it is linked with. It returns the zero
// kind for a script and for a file that cannot be read. It does not find libraries that a program loads at run time.
func linked(path string) kind {
	names, err := neededLibraries(path)
	if err != nil {
		return kind{}
	}
	return recognize(names)
}

// recognize determines the MPI library by its file name. libmpi.so.40 and its language bindings belong to Open MPI.
// libmpich.so and libmpi.so.12 belong to MPICH and to libraries with the same ABI. A program with libpmix alone is a
// client of PMIx without MPI.
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

// needs lists the interfaces by which a rank finds its peers.
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

// prepareMPI adds the variables that Open MPI needs to the environment of a rank. It returns an error if an interface
// that the user requires is not available.
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
		env.suggest("OMPI_MCA_mpi_yield_when_idle=1") // ranks that wait must leave the CPU to ranks that compute
	}
	if s.cfg.Job.Launch.Launcher == "local" && s.cfg.Job.Nodes > 1 {
		env.suggest("OMPI_MCA_btl=self,tcp") // the shared memory files of vader would have equal names here
	}
	return nil
}

// offer opens libpmi once.
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

// openJob returns the number that identifies the job for Open MPI. Open MPI puts it in names of shared memory, so it
// must be unique on a host. Open MPI uses only 15 bits of each half in some cases. The lower half is not 0, because 0
// denotes its own daemons.
func openJob(id string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id))
	return h.Sum32()&0x7fff7fff | 1
}
