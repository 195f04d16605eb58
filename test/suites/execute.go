package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// command describes how go test is run for a suite.
type command struct {
	suite    string
	env      []string // in addition to the environment of this process
	flags    []string
	packages []string
	args     []string // of the test binaries
	binaries string   // folder that retains the test binaries for the next run, or ""
	again    bool     // run each failed test a second time, by itself
}

// result is the outcome of a suite.
type result struct {
	suite            string
	passed           int
	failed, unstable []string // package and test
	skipped          []skip
	wall, cpu        time.Duration
}

// skip is a skipped test and its reason.
type skip struct{ name, reason string }

// event is a line that go test -json prints: an event of a test (go doc test2json) or of a build (go help buildjson).
type event struct {
	Action, Package, ImportPath, Test, Output string
}

// run runs the command and then, if it is a labelled suite, each failed test once more by itself.
func (c command) run(out io.Writer) (*result, error) {
	fmt.Fprintf(out, "\n# %s: go test %s\n", c.suite, strings.Join(c.short(), " "))
	began, used := time.Now(), busy()
	r := &result{}
	groups, err := c.groups()
	if err != nil {
		return nil, err
	}
	for _, group := range groups {
		part, err := group.once(out)
		if err != nil {
			return nil, err
		}
		r.add(part)
	}
	if c.again {
		failed := r.failed
		r.failed = nil
		for _, name := range failed {
			pkg, test, _ := strings.Cut(name, " ")
			if test == "" {
				r.failed = append(r.failed, name) // the package was not compiled, or its test binary ended early
				continue
			}
			fmt.Fprintf(out, "\n# %s: %s once more\n", c.suite, name)
			one := c
			one.packages = []string{pkg}
			one.flags = append(slices.Clone(c.flags), "-run=^"+test+"$")
			second, err := one.once(out)
			if err != nil {
				return nil, err
			}
			if len(second.failed) > 0 || second.passed == 0 {
				r.failed = append(r.failed, name)
			} else {
				r.unstable = append(r.unstable, name)
			}
		}
	}
	r.suite, r.wall, r.cpu = c.suite, time.Since(began), busy()-used
	return r, nil
}

// add adds the tests of part, the result of one of several go test commands, to r.
func (r *result) add(part *result) {
	r.passed += part.passed
	r.failed = append(r.failed, part.failed...)
	r.skipped = append(r.skipped, part.skipped...)
}

// groups splits the command into several commands, each of which writes its test binaries to a folder of its own. The
// folders remain for the next run, because go test does not link a binary again that is up to date, and linking takes
// a third of the CPU time of the suite "test". A binary has the name of its package. So packages with the same name
// (the last element of the import path) are in different groups.
func (c command) groups() ([]command, error) {
	if c.binaries == "" {
		return []command{c}, nil
	}
	list := exec.Command("go", append([]string{"list", "-e"}, c.packages...)...)
	list.Env = append(os.Environ(), c.env...)
	list.Stderr = os.Stderr
	paths, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var groups []command
	next := map[string]int{} // by package name, the index of the group for the next such package
	for _, path := range strings.Fields(string(paths)) {
		n := next[filepath.Base(path)]
		next[filepath.Base(path)]++
		if n == len(groups) {
			group := c
			dir := filepath.Join(c.binaries, fmt.Sprint(n+1))
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return nil, err
			}
			group.packages = nil
			group.flags = slices.Concat(c.flags, []string{"-ldflags=-s -w", "-o", dir + string(filepath.Separator)})
			groups = append(groups, group)
		}
		groups[n].packages = append(groups[n].packages, path)
	}
	return groups, nil
}

// short returns the arguments of go test for a message. It cuts long arguments, and lists 16 arguments at most.
func (c command) short() []string {
	var args []string
	for _, a := range slices.Concat(c.flags, c.packages, c.args) {
		if len(a) > 100 {
			a = a[:80] + "...'"
		}
		args = append(args, a)
	}
	if len(args) > 16 {
		args = append(args[:16], "...")
	}
	return args
}

// packageLine matches what go test prints about a package as a whole.
var packageLine = regexp.MustCompile(`^(ok  |FAIL|---|\?   |panic:|-test\.shuffle|\t)`)

// once runs the command and reads its events. It prints one line for each package, and all output of
// failed tests. The events are kept in out/SUITE.json.
func (c command) once(out io.Writer) (*result, error) {
	cmd := exec.Command("go", slices.Concat([]string{"test", "-json"}, c.flags, c.packages, c.args)...)
	if len(c.args) > 0 {
		cmd.Args = slices.Concat([]string{"go", "test", "-json"}, c.flags, c.packages, []string{"-args"}, c.args)
	}
	cmd.Env = append(os.Environ(), c.env...)
	cmd.Stderr = out
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(filepath.Join("out", c.suite+".json"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	r, err := read(io.TeeReader(stdout, log), out)
	if err != nil {
		return nil, errors.Join(err, cmd.Process.Kill(), cmd.Wait())
	}
	err = cmd.Wait()
	if err != nil && len(r.failed) == 0 {
		r.failed = append(r.failed, fmt.Sprintf("go test: %v", err))
	}
	return r, nil
}

// read reads the events of one go test command.
func read(in io.Reader, out io.Writer) (*result, error) {
	r := &result{}
	outputs := map[string]*bytes.Buffer{} // of running tests, and of packages
	output := func(name string) *bytes.Buffer {
		if outputs[name] == nil {
			outputs[name] = &bytes.Buffer{}
		}
		return outputs[name]
	}
	failedIn := map[string]int{} // failed tests by package
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return r, nil
		}
		if err != nil {
			return nil, err
		}
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			fmt.Fprintf(out, "%s", line) // go test prints some messages of its own as plain text
			continue
		}
		name := strings.TrimSpace(e.Package + " " + e.Test)
		switch e.Action {
		case "build-output":
			fmt.Fprint(out, e.Output)
		case "output":
			output(name).WriteString(e.Output)
			if e.Test == "" && packageLine.MatchString(e.Output) && !strings.HasSuffix(e.Output, "[no test files]\n") {
				fmt.Fprint(out, e.Output)
			}
		case "pass":
			if e.Test != "" {
				r.passed++
			}
			delete(outputs, name)
		case "skip":
			if e.Test != "" {
				r.skipped = append(r.skipped, skip{name, reason(output(name).String())})
			}
			delete(outputs, name)
		case "fail":
			top, _, isSub := strings.Cut(e.Test, "/")
			if e.Test == "" {
				if failedIn[e.Package] == 0 {
					fmt.Fprint(out, output(name).String())
					r.failed = append(r.failed, e.Package)
				}
				continue
			}
			fmt.Fprint(out, output(name).String())
			if !isSub {
				failedIn[e.Package]++
				r.failed = append(r.failed, e.Package+" "+top)
			}
		}
	}
}

// skipLine matches the line in which package testing prints the reason of a skip.
var skipLine = regexp.MustCompile(`(?m)^\s+\w+\.go:\d+: (.*)$`)

// reason returns the reason of a skipped test from its output.
func reason(output string) string {
	found := skipLine.FindAllStringSubmatch(output, -1)
	if len(found) == 0 {
		return "no reason given"
	}
	return found[len(found)-1][1]
}

// busy returns the CPU time that all processes of this machine have used, from /proc/stat (proc(5)). So it includes
// processes of jobs that are not descendants of the tests.
func busy() time.Duration {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	var user, nice, system int64 // in units of 10 ms
	_, _ = fmt.Sscanf(string(text), "cpu %d %d %d", &user, &nice, &system)
	return time.Duration(user+nice+system) * 10 * time.Millisecond
}

// prepareCoverage creates the folder for coverage data and returns its path. It sets IBRUN_TEST_COVER, so that package
// product builds ibrun with coverage and ibrun writes its data to the same folder.
func prepareCoverage(dir string) (string, error) {
	path, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return path, errors.Join(os.MkdirAll(path, 0o777), os.Chmod(path, 0o777), os.Setenv("IBRUN_TEST_COVER", path))
}
