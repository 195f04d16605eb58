// Package suite gives tests the MPI libraries of two Debian suites: this machine's, and those of
// Debian 13 in a root file system of their own, which test/fleet/build makes and caches.
//
//	newer := suite.Newer(t)
//	c := cluster.Require(t, cluster.Config{Nodes: 4, Share: newer.Folders()})
//	program := newer.MPI(t, "../mpi/testdata/mpi.c", c.Shared()+"/mpi")
//	argv := newer.Command(t, c.Shared(), program, "ring") // for ibrun, or for the suite's own mpirun
//
// It refuses to install anything: where a library is missing, its test fails with the package's
// name.
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

// keyring verifies Debian's releases. Machines without it are not Debian.
const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// cache is the user's, as it was before a test's TestMain chose another one for ibrun.
var cache, errCache = os.UserCacheDir()

// Suite is where programs and libraries come from.
type Suite struct {
	Name string // of the suite, for a test's messages
	root string // empty: this machine's
}

// Own is the suite of this machine.
func Own() Suite { return Suite{Name: "own"} }

// Newer is Debian 13 with Open MPI 5, libpmix 5 and mpi4py. It is made if there is none, which is a
// download of 55 MB. A test is left out where this machine is not Debian, or without root.
func Newer(t *testing.T) Suite {
	t.Helper()
	if os.Geteuid() != 0 {
		skip.Because(t, "programs of Debian 13 need root: they run in a mount namespace")
	}
	if _, err := os.Stat(keyring); err != nil {
		skip.Because(t, "Debian 13 cannot be verified here: no "+keyring)
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

// Folders are those that a host must see for the suite's programs to run there.
func (s Suite) Folders() []string {
	if s.root == "" {
		return nil
	}
	return []string{s.root}
}

// Command is an argument list that runs a command with the suite's files, on any host that sees the
// folder. A program for that is built there if it is missing.
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

// Launcher is the suite's own mpirun, for root, over ssh if hosts are named, without binding: all
// nodes of a virtual cluster have the same CPUs.
func (s Suite) Launcher(t *testing.T, folder string) []string {
	t.Helper()
	mpirun := []string{"mpirun.openmpi", "--allow-run-as-root", "--bind-to", "none"}
	if s.root != "" {
		daemon := strings.Join(s.Command(t, folder, "prted"), " ")
		mpirun = append(mpirun, "--prtemca", "prte_launch_agent", daemon)
	}
	return s.Command(t, folder, mpirun...)
}

// MPI compiles a C program against the suite's Open MPI and returns the path that it was told.
func (s Suite) MPI(t *testing.T, source, path string) string {
	t.Helper()
	return s.openMPI(t, source, path, "-lmpi")
}

// SHMEM is MPI for a program of OpenSHMEM.
func (s Suite) SHMEM(t *testing.T, source, path string) string {
	t.Helper()
	return s.openMPI(t, source, path, "-loshmem")
}

func (s Suite) openMPI(t *testing.T, source, path, library string) string {
	t.Helper()
	lib := s.libraries(t, "openmpi", "libopenmpi-dev")
	return s.compile(t, source, path, "-I"+lib+"/openmpi/include", "-L"+lib+"/openmpi/lib", "-L"+lib, library)
}

// PMIx compiles a C program against the suite's libpmix and returns the path that it was told.
func (s Suite) PMIx(t *testing.T, source, path string) string {
	t.Helper()
	lib := s.libraries(t, "pmix2", "libpmix-dev")
	return s.compile(t, source, path, "-I"+lib+"/pmix2/include", "-L"+lib+"/pmix2/lib", "-L"+lib, "-lpmix")
}

// libraries is the folder of the suite's libraries that has a package's headers.
func (s Suite) libraries(t *testing.T, name, pkg string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(s.root+"/", "usr/lib/*-linux-gnu", name, "include"))
	if err != nil || len(found) != 1 {
		t.Fatalf("no headers of %s in suite %q: package %s is needed", name, s.Name, pkg)
	}
	return filepath.Dir(filepath.Dir(found[0]))
}

// compile runs this machine's compiler, for the newer suite too: a program made for the older C
// library runs with the newer one. The libraries of the newer suite need symbols that the older C
// library lacks, and will find them when they run.
func (s Suite) compile(t *testing.T, source, path string, options ...string) string {
	t.Helper()
	argv := append([]string{"gcc", "-Wall", "-Wextra", "-Werror", source}, options...)
	if s.root != "" {
		argv = append(argv, "-Wl,--unresolved-symbols=ignore-in-shared-libs")
	}
	return Compile(t, path, argv...)
}

// MPICH compiles a C program with this machine's MPICH and returns the path that it was told.
func MPICH(t *testing.T, source, path string) string {
	t.Helper()
	return Compile(t, path, "mpicc.mpich", source)
}

// Compile is compiled.Program for a test.
func Compile(t *testing.T, path string, argv ...string) string {
	t.Helper()
	if err := compiled.Program(path, argv...); err != nil {
		t.Fatal(err)
	}
	return path
}

// module is the folder of the module, in one of whose packages a test runs.
func module(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		t.Fatalf("go list -m: %v", err)
	}
	return strings.TrimSpace(string(out))
}
