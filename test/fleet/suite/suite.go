// Package suite gives tests the MPI libraries of two Debian suites: those of this machine, and those of Debian 13
// in a root file system of their own. test/fleet/build makes that root and caches it.
//
//	newer := suite.Newer(t)
//	c := cluster.Require(t, cluster.Config{Nodes: 4, Share: newer.Folders()})
//	program := newer.MPI(t, "../mpi/testdata/mpi.c", c.Shared()+"/mpi")
//	argv := newer.Command(t, c.Shared(), program, "ring") // for ibrun, or for the suite's own mpirun
//
// Package suite does not install anything. If a library is missing, the test fails with the name of its package.
package suite

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ibrun/internal/skip"
	"ibrun/test/compiled"
)

// keyring is the file with the keys of Debian's releases. Only Debian has it.
const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// cache is the user's cache directory. It is read before a TestMain sets another one for ibrun.
var cache, errCache = os.UserCacheDir()

// Suite is a Debian suite with programs and libraries.
type Suite struct {
	Name string // for messages of tests
	root string // its root file system, or "" for this machine
}

// Own returns the suite of this machine.
func Own() Suite { return Suite{Name: "own"} }

// Newer returns Debian 13 with Open MPI 5, libpmix 5 and mpi4py. If its root is missing, Newer builds it, and
// downloads 55 MB. It skips the test if this machine is not Debian, or without root.
func Newer(t *testing.T) Suite {
	t.Helper()
	if os.Geteuid() != 0 {
		skip.Because(t, "programs of Debian 13 need root: they run in a mount namespace")
	}
	if _, err := os.Stat(keyring); err != nil {
		skip.Because(t, "packages of Debian 13 cannot be verified: there is no "+keyring)
	}
	if errCache != nil {
		t.Fatal(errCache)
	}
	cmd := exec.Command(filepath.Join(module(t), "test/fleet/build"), filepath.Join(cache, "ibrun-fleet"))
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("test/fleet/build: %v\n%s", err, &said)
	}
	t.Logf("%s", bytes.TrimSpace(said.Bytes()))
	return Suite{Name: "newer", root: strings.TrimSpace(string(out))}
}

// Folders returns the folders that a host must see to run the suite's programs.
func (s Suite) Folders() []string {
	if s.root == "" {
		return nil
	}
	return []string{s.root}
}

// Command returns an argument list that runs a command with the suite's files, on any host that sees the folder.
// It builds command fleet in the folder if it is missing.
func (s Suite) Command(t *testing.T, folder string, argv ...string) []string {
	t.Helper()
	if s.root == "" {
		return argv
	}
	enter := filepath.Join(folder, "fleet")
	if _, err := os.Stat(enter); err != nil {
		build := exec.Command("go", "build", "-o", enter, "ibrun/test/fleet")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("go build ibrun/test/fleet: %v\n%s", err, out)
		}
	}
	return append([]string{enter, s.root}, argv...)
}

// Launcher returns the arguments of the suite's own mpirun. It runs as root, and over ssh if hosts are named. It
// does not bind ranks, because all nodes of a virtual cluster have the same CPUs.
func (s Suite) Launcher(t *testing.T, folder string) []string {
	t.Helper()
	mpirun := []string{"mpirun.openmpi", "--allow-run-as-root", "--bind-to", "none"}
	if s.root != "" {
		daemon := strings.Join(s.Command(t, folder, "prted"), " ")
		mpirun = append(mpirun, "--prtemca", "prte_launch_agent", daemon)
	}
	return s.Command(t, folder, mpirun...)
}

// MPI compiles a C program with the suite's Open MPI to a path, and returns the path.
func (s Suite) MPI(t *testing.T, source, path string) string {
	t.Helper()
	return s.openMPI(t, source, path, "-lmpi")
}

// SHMEM compiles a C program with the suite's OpenSHMEM to a path, and returns the path.
func (s Suite) SHMEM(t *testing.T, source, path string) string {
	t.Helper()
	return s.openMPI(t, source, path, "-loshmem")
}

func (s Suite) openMPI(t *testing.T, source, path, library string) string {
	t.Helper()
	lib := s.libraries(t, "openmpi", "libopenmpi-dev")
	return s.compile(t, source, path, "-I"+lib+"/openmpi/include", "-L"+lib+"/openmpi/lib", "-L"+lib, library)
}

// PMIx compiles a C program with the suite's libpmix to a path, and returns the path.
func (s Suite) PMIx(t *testing.T, source, path string) string {
	t.Helper()
	lib := s.libraries(t, "pmix2", "libpmix-dev")
	return s.compile(t, source, path, "-I"+lib+"/pmix2/include", "-L"+lib+"/pmix2/lib", "-L"+lib, "-lpmix")
}

// libraries returns the folder of the suite's libraries. It fails the test if the headers of name are missing.
func (s Suite) libraries(t *testing.T, name, pkg string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(s.root+"/", "usr/lib/*-linux-gnu", name, "include"))
	if err != nil || len(found) != 1 {
		t.Fatalf("no headers of %s in suite %q: install package %s", name, s.Name, pkg)
	}
	return filepath.Dir(filepath.Dir(found[0]))
}

// compile runs this machine's compiler, also for the newer suite. A program that is linked with the older C library
// runs with the newer one. The libraries of the newer suite need symbols that only the newer C library has, so the
// linker ignores symbols that shared libraries miss.
func (s Suite) compile(t *testing.T, source, path string, options ...string) string {
	t.Helper()
	argv := append([]string{"gcc", "-Wall", "-Wextra", "-Werror", source}, options...)
	if s.root != "" {
		argv = append(argv, "-Wl,--unresolved-symbols=ignore-in-shared-libs")
	}
	return Compile(t, path, argv...)
}

// MPICH compiles a C program with this machine's MPICH to a path, and returns the path.
func MPICH(t *testing.T, source, path string) string {
	t.Helper()
	return Compile(t, path, "mpicc.mpich", source)
}

// Compile calls compiled.Program, returns the path, and fails the test on an error.
func Compile(t *testing.T, path string, argv ...string) string {
	t.Helper()
	if err := compiled.Program(path, argv...); err != nil {
		t.Fatal(err)
	}
	return path
}

// module returns the folder of the module of the test.
func module(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		t.Fatalf("go list -m: %v", err)
	}
	return strings.TrimSpace(string(out))
}
