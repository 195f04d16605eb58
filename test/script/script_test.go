// Package script runs the scripts of testdata against the real binary on this machine.
//
// Each file of testdata has one topic of the command line. It holds a script and the files that the
// script needs, in the format of testscript (github.com/rogpeppe/go-internal/testscript). Run one with
//
//	go test ./test/script -run TestScript/prepend
package script

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"

	"ibrun/internal/waitfor"
	"ibrun/test/product"
)

// program is the path of the binary under test.
var program string

func TestMain(m *testing.M) { os.Exit(product.Run(m, &program)) }

func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireUniqueNames:  true,
		RequireExplicitExec: true,
		Setup:               setup,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"appears":  appears,
			"cmplines": cmplines,
			"exits":    exits,
		},
	})
}

// setup gives a script folders of its own, and puts ibrun on its path. When the script ends, no process
// that it started may be left.
func setup(e *testscript.Env) error {
	e.Setenv("PATH", filepath.Dir(program)+string(filepath.ListSeparator)+e.Getenv("PATH"))
	for name, dir := range map[string]string{"HOME": "home", "XDG_RUNTIME_DIR": "run", "XDG_CACHE_HOME": "home/.cache"} {
		path := filepath.Join(e.WorkDir, "."+dir)
		if err := os.MkdirAll(path, 0o700); err != nil {
			return err
		}
		e.Setenv(name, path)
	}
	e.Setenv("USER", "user") // ranks inherit it
	work := "WORK=" + e.WorkDir
	t := e.T()
	e.Defer(func() {
		left := processes(work)
		if len(left) > 0 {
			err := waitfor.True(func() bool { left = processes(work); return len(left) == 0 })
			if err != nil {
				t.Fatal("processes of the script are left: ", strings.Join(left, ", "))
			}
		}
	})
	return nil
}

// exits runs a command and requires its exit code: exits CODE COMMAND [ARGUMENT...].
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND [ARGUMENT...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	code := 0
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if code != want {
		ts.Fatalf("%s exited with code %d, want %d", args[1], code, want)
	}
}

// cmplines requires that two files have the same lines in any order: cmplines FILE1 FILE2.
// FILE1 can be stdout or stderr.
func cmplines(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: cmplines FILE1 FILE2")
	}
	lines := func(file string) []string { return slices.Sorted(strings.Lines(ts.ReadFile(file))) }
	if diff := cmp.Diff(lines(args[1]), lines(args[0])); diff != "" {
		ts.Fatalf("%s and %s have different lines (-%s +%s):\n%s", args[0], args[1], args[1], args[0], diff)
	}
}

// appears waits until a file exists and has a line that matches: appears FILE [PATTERN].
func appears(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: appears FILE [PATTERN]")
	}
	pattern := regexp.MustCompile("(?m)" + strings.Join(args[1:], ""))
	path := ts.MkAbs(args[0])
	var text []byte
	err := waitfor.True(func() bool {
		var err error
		text, err = os.ReadFile(path)
		return err == nil && pattern.Match(text)
	})
	if err != nil {
		ts.Fatalf("%s: %v; it has:\n%s", strings.Join(args, " "), err, text)
	}
}

// processes returns the live processes that have a variable in their environment.
func processes(variable string) (found []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		environ, err := os.ReadFile(file)
		if err == nil && bytes.Contains(append([]byte{0}, environ...), []byte("\x00"+variable+"\x00")) {
			argv, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
			found = append(found, fmt.Sprintf("%s %q", filepath.Base(filepath.Dir(file)), argv))
		}
	}
	return found
}
