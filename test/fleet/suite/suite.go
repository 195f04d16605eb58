// Package suite compiles and runs programs with the MPI libraries of two Debian suites: that of this machine, and
// Debian 13. The script test/fleet/build unpacks the packages of Debian 13 in a separate root file system, which is
// cached.
//
//	newer := suite.Newer(t)
//	c := cluster.Require(t, cluster.Config{Nodes: 4, Share: newer.Folders()})
//	program := newer.MPI(t, "../mpi/testdata/mpi.c", c.Shared()+"/mpi")
//	argv := newer.Command(t, c.Shared(), program, "ring") // for ibrun, or for the suite's own mpirun
//
// No packages are installed on this machine. If a library is missing, the test fails with the name of its package.
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

// keyring is the file with the keys of Debian's releases. If it is missing, this machine is probably not Debian.
const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// cache is the user's cache directory. It is determined when the package is initialized, before product.Run sets
// XDG_CACHE_HOME to a temporary folder.
var cache, errCache = os.UserCacheDir()

// Suite is a release of Debian with its programs and libraries.
type Suite struct {
	Name string // "own" or "newer", for names and messages of tests
	root string // its root file system, or "" for this machine
}

// Own returns the suite of this machine.
func Own() Suite { return Suite{Name: "own"} }

// Newer returns Debian 13 with Open MPI 5, libpmix 5 and mpi4py. If its root file system is not cached, Newer makes it,
// which downloads 55 MB. It skips the test if keyring is missing or if the test does not run as root.
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

// Folders returns the folders that the nodes of a virtual cluster must share to run the suite's programs.
func (s Suite) Folders() []string {
	if s.root == "" {
		return nil
	}
	return []string{s.root}
}

// Command returns the arguments of a command that runs argv with the files of the suite. For this machine's suite these
// are argv itself. For the newer one they start with command fleet, which Command builds in folder if it is missing
// there. All hosts that run the command must see this folder.
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

// Launcher returns the arguments of the suite's own mpirun, to which a test appends options and a program. mpirun may
// run as root. It does not bind ranks to CPUs, because all nodes of a virtual cluster share the same CPUs.
func (s Suite) Launcher(t *testing.T, folder string) []string {
	t.Helper()
	mpirun := []string{"mpirun.openmpi", "--allow-run-as-root", "--bind-to", "none"}
	if s.root != "" {
		daemon := strings.Join(s.Command(t, folder, "prted"), " ")
		mpirun = append(mpirun, "--prtemca", "prte_launch_agent", daemon)
	}
	return s.Command(t, folder, mpirun...)
}

// MPI compiles the C file source with the suite's Open MPI to the program path, and returns path.
func (s Suite) MPI(t *testing.T, source, path string) string {
	t.Helper()
	return s.openMPI(t, source, path, "-lmpi")
}

// SHMEM compiles the C file source with the suite's OpenSHMEM to the program path, and returns path.
func (s Suite) SHMEM(t *testing.T, source, path string) string {
	t.Helper()
	return s.openMPI(t, source, path, "-loshmem")
}

func (s Suite) openMPI(t *testing.T, source, path, library string) string {
	t.Helper()
	lib := s.libraries(t, "openmpi", "libopenmpi-dev")
	return s.compile(t, source, path, "-I"+lib+"/openmpi/include", "-L"+lib+"/openmpi/lib", "-L"+lib, library)
}

// PMIx compiles the C file source with the suite's libpmix to the program path, and returns path.
func (s Suite) PMIx(t *testing.T, source, path string) string {
	t.Helper()
	lib := s.libraries(t, "pmix2", "libpmix-dev")
	return s.compile(t, source, path, "-I"+lib+"/pmix2/include", "-L"+lib+"/pmix2/lib", "-L"+lib, "-lpmix")
}

// libraries returns the folder of the suite's libraries, such as /usr/lib/x86_64-linux-gnu. If the headers of the
// library name are missing there, it fails the test with a message that names the package pkg.
func (s Suite) libraries(t *testing.T, name, pkg string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(s.root+"/", "usr/lib/*-linux-gnu", name, "include"))
	if err != nil || len(found) != 1 {
		t.Fatalf("no headers of %s in suite %q: install package %s", name, s.Name, pkg)
	}
	return filepath.Dir(filepath.Dir(found[0]))
}

// compile runs this machine's compiler, for both suites. A program of the newer suite is therefore linked with this
// machine's older C library, and runs with the newer one. Its MPI libraries need symbols that only the newer C library
// has, so the linker is told to ignore undefined symbols in shared libraries.
func (s Suite) compile(t *testing.T, source, path string, options ...string) string {
	t.Helper()
	argv := append([]string{"gcc", "-Wall", "-Wextra", "-Werror", source}, options...)
	if s.root != "" {
		argv = append(argv, "-Wl,--unresolved-symbols=ignore-in-shared-libs")
	}
	return Compile(t, path, argv...)
}

// MPICH compiles the C file source with this machine's MPICH to the program path, and returns path.
func MPICH(t *testing.T, source, path string) string {
	t.Helper()
	return Compile(t, path, "mpicc.mpich", source)
}

// Compile calls compiled.Program and returns path. It fails the test if the compiler fails.
func Compile(t *testing.T, path string, argv ...string) string {
	t.Helper()
	if err := compiled.Program(path, argv...); err != nil {
		t.Fatal(err)
	}
	return path
}

// module returns the top folder of this Go module.
func module(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		t.Fatalf("go list -m: %v", err)
	}
	return strings.TrimSpace(string(out))
}
