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

// Run builds ibrun in a temporary folder, sets path to the path of the binary, runs the tests and returns their exit
// code. It sets XDG_CACHE_HOME to a part of that folder, so that launch costs that ibrun stores in its cache do not
// affect other packages or the user.
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

// keepBuildCache sets GOCACHE to the present folder of Go's build cache. Otherwise XDG_CACHE_HOME would select another
// folder, and a test that runs go build would compile all packages again.
func keepBuildCache() error {
	dir, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		return fmt.Errorf("go env GOCACHE: %w", err)
	}
	return os.Setenv("GOCACHE", strings.TrimSpace(string(dir)))
}

// Build builds ibrun with further build tags. In a labelled suite it builds the same binary as make build. In other
// tests it leaves out the program of a leaf and the packing of the file, which only make launches faster.
func Build(path string, tags ...string) error {
	cover := coverFlags()
	return buildOnce(path, fmt.Sprint("ibrun ", shipped, tags), func(path string) error { return buildAll(path, cover, tags) })
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

// joinLeaf builds the program of a leaf with the flags of the Makefile, and adds it to the file of ibrun.
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

// Program builds a static program of this module, with further flags of go build.
func Program(path, pkg string, flags ...string) error {
	return buildOnce(path, fmt.Sprint(pkg, shipped, flags), func(path string) error { return compile(path, pkg, flags...) })
}

// Programs builds static programs of this module in a folder. Their names are the last elements of their import paths.
// It runs go build once for all of them, which takes half the time of several runs.
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

// waits matches the lines in which ibrun reports that it waits for sessions.
var waits = regexp.MustCompile(`(?m)^ibrun: waiting for .*\n`)

// Complaints returns the standard error of ibrun without the lines that begin with "ibrun: waiting for". On a busy
// machine each step of a launch may take so long that ibrun prints such a line.
func Complaints(stderr string) string { return waits.ReplaceAllString(stderr, "") }

// catchSignals makes sure that programs which the tests start do not ignore SIGHUP and SIGINT. If the tests are started
// by nohup, or in the background of a script, they ignore these signals, and their children would inherit that. If a
// process catches a signal, its children have the default action.
func catchSignals() {
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
}
