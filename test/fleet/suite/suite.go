// Package suite compiles and runs programs with the MPI libraries of two suites, which are releases of Debian: that of
// this machine, and Debian 13. The script test/fleet/build unpacks the packages of Debian 13 in a root file system in
// the user's cache directory.
//
//	newer := suite.Newer(t)
//	c := cluster.Require(t, cluster.Config{Nodes: 4, Share: newer.Folders()})
//	program := newer.MPI(t, "../mpi/testdata/mpi.c", c.Shared()+"/mpi")
//	argv := newer.Command(t, c.Shared(), program, "ring") // for ibrun, or for the suite's own mpirun
//
// Package suite installs no packages on this machine. If a library is missing, the test fails with a message that names
// the package to install.
package suite

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ibrun/test/compiled"
	"ibrun/test/skip"
)

// keyring is the file with the public keys of Debian's releases. The script test/fleet/build verifies packages with it.
const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// cache is the user's cache directory. It is determined when the package is initialized, because product.Run later sets
// XDG_CACHE_HOME to a temporary folder.
var cache, errCache = os.UserCacheDir()

// Suite represents the programs and libraries of a release of Debian.
type Suite struct {
	Name string // "own" for this machine or "newer" for Debian 13
	root string // path of the root file system, or "" for this machine
}

// Own returns the suite of this machine.
func Own() Suite { return Suite{Name: "own"} }

// Newer returns Debian 13 with Open MPI 5, libpmix 5 and mpi4py. If its root file system is not in the cache, Newer
// downloads 55 MB to make it. Newer skips the test if keyring is missing, or if the test does not run as root.
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

// Folders returns the folders of this machine that all nodes of a virtual cluster must share, so that programs of the
// suite can run there.
func (s Suite) Folders() []string {
	if s.root == "" {
		return nil
	}
	return []string{s.root}
}

// Command returns the arguments of a command that runs argv with the programs and libraries of the suite. For this
// machine's suite it returns argv. For Debian 13 it puts the program fleet and the root file system before argv. It
// builds fleet in folder if it is missing there. All hosts that run the command must see folder.
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

// Launcher returns the first arguments of a command that runs the suite's mpirun. The caller appends options and a
// program. mpirun does not bind ranks to CPUs, because all nodes of a virtual cluster have the same CPUs. See Command
// for folder.
func (s Suite) Launcher(t *testing.T, folder string) []string {
	t.Helper()
	mpirun := []string{"mpirun.openmpi", "--allow-run-as-root", "--bind-to", "none"}
	if s.root != "" {
		daemon := strings.Join(s.Command(t, folder, "prted"), " ")
		mpirun = append(mpirun, "--prtemca", "prte_launch_agent", daemon)
	}
	return s.Command(t, folder, mpirun...)
}

// MPI compiles the C file source with the suite's Open MPI, writes the program to path, and returns path.
func (s Suite) MPI(t *testing.T, source, path string) string {
	t.Helper()
	return s.openMPI(t, source, path, "-lmpi")
}

// SHMEM compiles the C file source with the suite's OpenSHMEM, which is a part of Open MPI, writes the program to path,
// and returns path.
func (s Suite) SHMEM(t *testing.T, source, path string) string {
	t.Helper()
	return s.openMPI(t, source, path, "-loshmem")
}

func (s Suite) openMPI(t *testing.T, source, path, library string) string {
	t.Helper()
	lib := s.libraries(t, "openmpi", "libopenmpi-dev")
	return s.compile(t, source, path, "-I"+lib+"/openmpi/include", "-L"+lib+"/openmpi/lib", "-L"+lib, library)
}

// PMIx compiles the C file source with the suite's libpmix, writes the program to path, and returns path.
func (s Suite) PMIx(t *testing.T, source, path string) string {
	t.Helper()
	lib := s.libraries(t, "pmix2", "libpmix-dev")
	return s.compile(t, source, path, "-I"+lib+"/pmix2/include", "-L"+lib+"/pmix2/lib", "-L"+lib, "-lpmix")
}

// libraries returns the folder of the suite's libraries, such as /usr/lib/x86_64-linux-gnu. If it has no headers of the
// library name, the test fails with a message to install the package pkg.
func (s Suite) libraries(t *testing.T, name, pkg string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(s.root+"/", "usr/lib/*-linux-gnu", name, "include"))
	if err != nil || len(found) != 1 {
		t.Fatalf("no headers of %s in suite %q: install package %s", name, s.Name, pkg)
	}
	return filepath.Dir(filepath.Dir(found[0]))
}

// compile compiles source with this machine's gcc, also for Debian 13. The program is linked with this machine's C
// library, but runs with the C library of the suite. The MPI libraries of Debian 13 need symbols that only its own,
// newer C library has. So the linker must ignore undefined symbols in shared libraries.
func (s Suite) compile(t *testing.T, source, path string, options ...string) string {
	t.Helper()
	argv := append([]string{"gcc", "-Wall", "-Wextra", "-Werror", source}, options...)
	if s.root != "" {
		argv = append(argv, "-Wl,--unresolved-symbols=ignore-in-shared-libs")
	}
	return Compile(t, path, argv...)
}

// MPICH compiles the C file source with this machine's MPICH, writes the program to path, and returns path.
func MPICH(t *testing.T, source, path string) string {
	t.Helper()
	return Compile(t, path, "mpicc.mpich", source)
}

// Compile runs the compiler argv by compiled.Program, which writes the program to path, and returns path. The test
// fails if the compiler fails.
func Compile(t *testing.T, path string, argv ...string) string {
	t.Helper()
	if err := compiled.Program(path, argv...); err != nil {
		t.Fatal(err)
	}
	return path
}

// module returns the root folder of the Go module, which contains go.mod.
func module(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		t.Fatalf("go list -m: %v", err)
	}
	return strings.TrimSpace(string(out))
}
