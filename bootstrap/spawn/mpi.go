package spawn

import (
	"debug/elf"
	"fmt"
	"hash/fnv"
	"os"
	"strconv"
	"strings"

	"ibrun/internal/libpmi"
	"ibrun/job"
)

// library is what a node's ranks are given of Open MPI's side of PMI.
type library struct {
	kinds map[string]kind // of programs, by path; Start's alone
	file  *os.File        // of libpmi, open as long as the agent lives; nil: not offered. Under Set.mu
	err   error           // why not
}

// kind is an MPI library.
type kind struct {
	open, mpich bool
	soname      string // by which it was recognized
}

// linked says which MPI library a program is linked with. Of a script, of what
// loads its libraries later and of what cannot be read it says nothing.
func linked(path string) kind {
	f, err := elf.Open(path)
	if err != nil {
		return kind{}
	}
	defer f.Close()
	names, _ := f.ImportedLibraries()
	return recognize(names)
}

// recognize finds an MPI library by its name: libmpi.so.40 and its languages are
// Open MPI's, libmpich.so and the libmpi.so.12 of MPICH's agreement with its kin
// are MPICH's.
func recognize(libraries []string) kind {
	for _, name := range libraries {
		switch {
		case strings.HasPrefix(name, "libmpich"), strings.HasPrefix(name, "libmpi") && strings.HasSuffix(name, ".so.12"):
			return kind{mpich: true, soname: name}
		case strings.HasPrefix(name, "libmpi") && strings.HasSuffix(name, ".so.40"):
			return kind{open: true, soname: name}
		}
	}
	return kind{}
}

// prepareMPI adds to a rank's environment what Open MPI needs, unless its
// program wants nothing of it. The error is why a program that was said to need
// it cannot have it.
func (s *Set) prepareMPI(r *rank, path string, env *environment) error {
	want := s.cfg.Job.MPI
	if want != job.MPIAuto && want != job.MPIOpen {
		return nil
	}
	if want == job.MPIAuto && s.kind(path, r.program.Argv[0]).mpich {
		return nil
	}
	file, err := s.offer()
	if err != nil {
		if want == job.MPIOpen {
			return err
		}
		return nil
	}
	env.set("FLUX_JOB_ID=" + strconv.FormatUint(uint64(openJob(s.cfg.Job.ID)), 10))
	env.set("FLUX_PMI_LIBRARY_PATH=" + libpmi.Path(file))
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
		s.mpi.file, s.mpi.err = libpmi.Open(os.TempDir(), sharedMemory)
	}
	return s.mpi.file, s.mpi.err
}

// kind is a program's, looked at once. The first node tells people of it.
func (s *Set) kind(path, name string) kind {
	if k, known := s.mpi.kinds[path]; known {
		return k
	}
	k := linked(path)
	if s.mpi.kinds == nil {
		s.mpi.kinds = map[string]kind{}
	}
	s.mpi.kinds[path] = k
	if k.mpich || k.open && libpmi.Image() != nil {
		s.cfg.Post(Linked{k.soname})
	}
	if k.open && libpmi.Image() == nil {
		s.cfg.Post(Warning{fmt.Sprintf("%s is a program of Open MPI (%s), whose ranks will each believe to be alone: %v", name, k.soname, libpmi.ErrNone)})
	} else if s.cfg.Job.Launch.Verbose && s.cfg.NodeIndex == 0 {
		s.cfg.Post(Warning{name + " " + k.String()})
	}
	return k
}

func (k kind) String() string {
	switch {
	case k.mpich:
		return "is linked with " + k.soname + ": MPICH, which speaks PMI"
	case k.open:
		return "is linked with " + k.soname + ": Open MPI, which gets libpmi"
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
