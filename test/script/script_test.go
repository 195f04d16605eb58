// Package script runs the scripts of testdata against the real binary on this machine.
//
// Each file of testdata has one topic of the command line. It holds a script and the files that the
// script needs, in the format of testscript (github.com/rogpeppe/go-internal/testscript). Run one with
//
//	go test ./test/script -run TestScript/prepend
package script

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"ibrun/test/product"
	"ibrun/test/waitfor"
)

// program is the path of the binary under test.
var program string

func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", "6") // Run more scripts at a time than there are cores, because they mostly wait.
	os.Exit(product.Run(m, &program))
}

func TestScript(t *testing.T) { run(t, "1", "testdata/*.txtar") }

// run runs the scripts whose paths match a pattern. It passes scale to them as the environment variable SCALE. Scripts
// that repeat a race multiply their repetitions by SCALE, and scripts that move data multiply the size of the data.
func run(t *testing.T, scale, pattern string) {
	files, err := filepath.Glob(pattern)
	require.NoError(t, err)
	programs := sync.OnceValue(func() error { return buildPrograms(files) })
	testscript.Run(t, testscript.Params{
		Files:               files,
		RequireUniqueNames:  true,
		RequireExplicitExec: true,
		Setup:               func(e *testscript.Env) error { return setup(e, scale) },
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"appears":  appears,
			"cmplines": cmplines,
			"exits":    exits,
			"gone":     gone,
			"json":     isJSON,
			"program":  func(ts *testscript.TestScript, _ bool, _ []string) { ts.Check(programs()) },
			"ends":     ends,
			"resize":   resize,
			"start":    start,
			"terminal": terminal,
			"types":    types,
			"until":    until,
		},
	})
}

// setup gives a script folders of its own, and puts ibrun on its path. When the script ends, no process
// that it started may be left.
func setup(e *testscript.Env, scale string) error {
	e.Setenv("PATH", filepath.Dir(program)+string(filepath.ListSeparator)+e.Getenv("PATH"))
	for name, dir := range map[string]string{"HOME": "home", "XDG_RUNTIME_DIR": "run", "XDG_CACHE_HOME": "home/.cache"} {
		path := filepath.Join(e.WorkDir, "."+dir)
		if err := os.MkdirAll(path, 0o700); err != nil {
			return err
		}
		e.Setenv(name, path)
	}
	e.Setenv("USER", "user") // Ranks inherit this variable.
	e.Setenv("SCALE", scale)
	e.Values[commandsKey{}] = commands{}
	if dir := os.Getenv("GOCOVERDIR"); dir != "" { // set by package product if coverage data are wanted
		e.Setenv("GOCOVERDIR", dir)
	}
	t := e.T()
	e.Defer(func() {
		if err := noneLeft(e.WorkDir); err != nil {
			t.Fatal(err)
		}
	})
	return nil
}

// exits runs a command and requires its exit code: exits CODE COMMAND [ARGUMENT...]. It drops the lines of standard
// error in which ibrun says what it waits for, since they depend on the load of the machine.
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
	stdout, stderr := ts.ReadFile("stdout"), ts.ReadFile("stderr")
	fmt.Fprint(ts.Stdout(), stdout)
	fmt.Fprint(ts.Stderr(), product.Complaints(stderr))
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

// gone waits until no process is left that the script has started.
func gone(ts *testscript.TestScript, _ bool, _ []string) { ts.Check(noneLeft(ts.Getenv("WORK"))) }

// isJSON requires that a file contains JSON values and nothing else: json FILE. FILE can be stdout or stderr.
func isJSON(ts *testscript.TestScript, _ bool, args []string) {
	text := json.NewDecoder(strings.NewReader(ts.ReadFile(args[0])))
	count, err := 0, error(nil)
	for value := any(nil); err == nil; count++ {
		err = text.Decode(&value)
	}
	if err != io.EOF || count == 1 {
		ts.Fatalf("%s has %d JSON values, then: %v", args[0], count-1, err)
	}
}

// buildPrograms builds the programs of this module that scripts need, and puts them on the path under the last
// parts of their packages' names. A script needs those that it names in lines of the form: program PACKAGE.
func buildPrograms(files []string) error {
	packages := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for _, found := range regexp.MustCompile(`(?m)^program (.+)$`).FindAllSubmatch(text, -1) {
			packages[string(found[1])] = true
		}
	}
	return product.Programs(filepath.Dir(program), slices.Sorted(maps.Keys(packages))...)
}

// noneLeft waits until no process of the script whose folder is work is left. These processes have WORK=work in their
// environment or as an argument. After waitfor.Deadline noneLeft returns an error that lists the processes.
func noneLeft(work string) error {
	left := processes("WORK=" + work)
	if len(left) == 0 {
		return nil
	}
	err := waitfor.True(func() bool { left = processes("WORK=" + work); return len(left) == 0 })
	if err != nil {
		err = fmt.Errorf("processes of the script are left: %s", strings.Join(left, ", "))
	}
	return err
}

// processes returns the id and the arguments of each process that has entry in its environment or as an argument. If
// the main thread of a process has ended, /proc/PID/environ and cmdline are empty, so processes reads the files of the
// remaining threads.
func processes(entry string) (found []string) {
	look := func(dir string) (empty bool) {
		environ, _ := os.ReadFile(dir + "/environ")
		argv, _ := os.ReadFile(dir + "/cmdline")
		if slices.Contains(strings.Split(string(environ)+"\x00"+string(argv), "\x00"), entry) {
			found = append(found, fmt.Sprintf("%s %q", filepath.Base(dir), argv))
		}
		return len(environ)+len(argv) == 0
	}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		if look(dir) {
			threads, _ := filepath.Glob(dir + "/task/[0-9]*")
			for _, thread := range threads {
				look(thread)
			}
		}
	}
	return found
}
