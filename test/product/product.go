// Package product builds ibrun as it ships, for tests that run it as a program.
package product

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// Run builds ibrun in a temporary folder, sets path to the path of the binary, and runs the tests. It returns the exit
// code for os.Exit, which is 1 if the build fails. It sets XDG_CACHE_HOME to a new folder, because ibrun stores the
// cost of launches in its cache, which would affect later launches of other packages or of the user.
func Run(m *testing.M, path *string) int {
	dir, err := os.MkdirTemp("", "ibrun-test")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	*path = filepath.Join(dir, "ibrun")
	if err := Build(*path); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := keepBuildCache(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	os.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "cache"))
	catchSignals()
	return m.Run()
}

// keepBuildCache sets GOCACHE to the folder of Go's build cache. Run calls it before it sets XDG_CACHE_HOME. Otherwise
// a test that runs go build would use a new cache and compile all packages again.
func keepBuildCache() error {
	dir, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		return fmt.Errorf("go env GOCACHE: %w", err)
	}
	return os.Setenv("GOCACHE", strings.TrimSpace(string(dir)))
}

// Build builds ibrun with additional build tags at path. In tests with a build tag such as cluster or mpi, it makes the
// same program as make build.
func Build(path string, tags ...string) error {
	cover := coverFlags()
	return buildOnce(path, fmt.Sprint("ibrun ", shipped, tags), func(path string) error {
		return buildAll(path, cover, tags)
	})
}

func buildAll(path string, cover, tags []string) error {
	flags := "-w"
	if runtime.GOARCH == "amd64" {
		flags += " -E ibrun/bootstrap/reaper.entry"
	}
	return compile(path, "ibrun/cmd/ibrun", append(cover, "-ldflags", flags, "-tags", strings.Join(tags, ","))...)
}

// Program builds the package pkg of this module as a static program at path. The flags are additional flags of go
// build.
func Program(path, pkg string, flags ...string) error {
	return buildOnce(path, fmt.Sprint(pkg, shipped, flags), func(path string) error {
		return compile(path, pkg, flags...)
	})
}

// Programs builds several packages of this module as static programs in the folder dir. Their file names are the last
// elements of the import paths. Programs runs go build only once, which takes half the time of one run for each
// package.
func Programs(dir string, pkgs ...string) error {
	if len(pkgs) == 1 {
		return Program(filepath.Join(dir, filepath.Base(pkgs[0])), pkgs[0])
	}
	return compile(dir, strings.Join(pkgs, " "))
}

// compile builds one package to the file path, or several packages, separated by spaces, to the folder path.
func compile(path, pkg string, flags ...string) error {
	if shipped {
		flags = append([]string{"-trimpath"}, flags...)
	}
	cmd := exec.Command("go", slices.Concat([]string{"build"}, flags, []string{"-o", path}, strings.Fields(pkg))...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w", out, err)
	}
	return nil
}

// waitLines matches the lines of standard error in which ibrun reports what it waits for.
var waitLines = regexp.MustCompile(`(?m)^ibrun: waiting for .*\n`)

// Complaints returns stderr, the standard error of ibrun, without the lines that begin with "ibrun: waiting for". On a
// busy machine ibrun may print such a line at any step of a launch.
func Complaints(stderr string) string { return waitLines.ReplaceAllString(stderr, "") }

// catchSignals makes sure that programs which the tests start do not ignore SIGHUP and SIGINT. A child process inherits
// ignored signals, and the test process ignores them if it was started by nohup or in the background of a script. After
// catchSignals the test process catches these signals, so child processes start with the default action.
func catchSignals() {
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
}
