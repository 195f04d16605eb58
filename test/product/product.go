// Package product builds ibrun as it ships, for tests that run it as a program.
package product

import (
	"errors"
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

	"ibrun/internal/build"
	"ibrun/internal/build/pack"
	"ibrun/internal/mpir/symbols"
)

// Run builds ibrun, sets path to where it lies, outside of the checkout, and
// runs the tests. What launches of tests cost is kept there too: it must not plan
// those of others, nor the user's. It returns the exit code.
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

// keepBuildCache names Go's build cache by itself, which otherwise moves with XDG_CACHE_HOME: what
// a test builds would be compiled from nothing.
func keepBuildCache() error {
	dir, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		return fmt.Errorf("go env GOCACHE: %w", err)
	}
	return os.Setenv("GOCACHE", strings.TrimSpace(string(dir)))
}

// Build builds ibrun with further build tags. In a labelled suite the binary is the one that make build
// makes. Elsewhere it has the same code, without the parts that only make it start sooner.
func Build(path string, tags ...string) error {
	cover := coverFlags()
	return kept(path, fmt.Sprint("ibrun ", shipped, tags), func(path string) error { return buildAll(path, cover, tags) })
}

func buildAll(path string, cover, tags []string) error {
	flags := "-w"
	if runtime.GOARCH == "amd64" {
		flags += " -E ibrun/bootstrap/reaper.entry"
	}
	err := compile(path, "ibrun/cmd/ibrun", append(cover, "-ldflags", flags, "-tags", strings.Join(tags, ","))...)
	if err == nil {
		err = symbols.Keep(path)
	}
	if err != nil || runtime.GOARCH != "amd64" || !shipped || cover != nil {
		return err
	}
	if err := joinLeaf(path, tags); err != nil {
		return err
	}
	if err := pack.Into(path, "", pack.Quick); err != nil && !errors.Is(err, pack.ErrNone) {
		return err
	}
	return nil
}

// joinLeaf builds the program of a leaf, as the Makefile does, and joins it to an ibrun.
func joinLeaf(path string, tags []string) error {
	leaf := path + ".leaf"
	defer os.Remove(leaf)
	err := compile(leaf, "ibrun/cmd/leaf", "-gcflags", "ibrun/...=-l", "-ldflags",
		"-s -w -T 0x10001000 -funcalign 16", "-tags", strings.Join(append(tags, "leaf"), ","))
	if err != nil {
		return err
	}
	return build.Join(path, leaf)
}

// Program builds a static program of this module. Flags are further flags of go build.
func Program(path, pkg string, flags ...string) error {
	return kept(path, fmt.Sprint(pkg, shipped, flags), func(path string) error { return compile(path, pkg, flags...) })
}

// Programs builds static programs of this module in a folder, under the last parts of their packages' names. One
// go build takes half the time of several.
func Programs(dir string, pkgs ...string) error {
	if len(pkgs) == 1 {
		return Program(filepath.Join(dir, filepath.Base(pkgs[0])), pkgs[0])
	}
	return compile(dir, strings.Join(pkgs, " "))
}

// compile builds one package or, in a folder, several that are separated by spaces.
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

// waits are the lines in which ibrun says which of its sessions take long.
var waits = regexp.MustCompile(`(?m)^ibrun: waiting for .*\n`)

// Complaints is what ibrun said on stderr but for what it was waiting for: on a busy machine each
// step of a launch may take the seconds after which it says so.
func Complaints(stderr string) string { return waits.ReplaceAllString(stderr, "") }

// catchSignals gives programs that tests start the signals that a login shell
// leaves alone, and nohup or a script's & do not: a signal that is caught here is not
// ignored there.
func catchSignals() {
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
}
