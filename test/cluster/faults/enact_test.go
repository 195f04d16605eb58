//go:build cluster || soak

package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// file is replaced by the name of a file with an input.
const file = "FILE"

// entry is one case of the catalogue of faults.
type entry struct {
	class string // A input, B launch, C running, D attacks
	fault string
	soak  bool // only make soak plays it: others show nearly the same

	// shell are words before ibrun's own: a shell that redirects, or limits. FILE among args is the
	// name of a file with what file has.
	shell []string
	args  []string // options, hosts and program
	file  string
	// before and after are called without a job: they break a node, and repair it.
	before, after func(*site) error
	// ready reports whether the fault is due; nil: as many ranks as ups have printed "up".
	ready  func(*site) bool
	ups    int
	strike func(*site, *job) error // nil: the fault is there from the beginning
	code   []int
	prints string // what the line with the cause matches; empty: there is no line
	out    string // what standard output matches, without the lines "up"; empty: anything
	check  func(*site) error
	cut    bool // sshd is not told that sessions are over, and keeps them
	wiped  bool // files stay until the node's next job
	ships  bool // nodes are sent the binary
	theirs bool // a login shell stays that never came to ibrun's command: sshd tells none of root's
}

func (e entry) String() string { return e.class + " " + e.fault }

// words is the whole command.
func (e *entry) words(s *site) []string {
	words := append(slices.Clone(e.shell), program)
	if e.ships {
		words[len(e.shell)] = s.unseen()
	}
	for _, w := range e.args {
		words = append(words, strings.ReplaceAll(w, file, filepath.Join(s.dir, "input")))
	}
	return words
}

// enact lets a case happen on a site where nothing runs, and leaves it so. It returns what was wrong.
func (s *site) enact(e *entry) (wrong []string, output string) {
	fail := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	if err := os.WriteFile(filepath.Join(s.dir, "input"), []byte(e.file), 0o644); err != nil {
		fail("%v", err)
	}
	var known []string
	if e.before != nil {
		if err := e.before(s); err != nil {
			fail("before: %v", err)
		}
		known = s.litter()
	}
	j, err := s.start(e.words(s))
	if err != nil {
		fail("starting it: %v", err)
		return wrong, ""
	}
	if e.strike != nil {
		s.strikes(e, j, fail)
	}
	s.awaitEnd(j, fail)
	var left []string
	if !s.until(func() bool { left = s.strays(e); return len(left) == 0 }) {
		fail("processes are left:\n\t%s", strings.Join(left, "\n\t"))
	}
	files := slices.DeleteFunc(s.litter(), func(f string) bool { return slices.Contains(known, f) })
	if len(files) > 0 && !e.wiped {
		fail("files are left: %v", files)
	}
	output = s.output(j)
	e.judge(j, fail)
	if e.check != nil {
		if err := e.check(s); err != nil {
			fail("%v", err)
		}
	}
	if e.after != nil || len(known) > 0 || e.cut || e.theirs || e.wiped || len(wrong) > 0 {
		s.restore(e.after, fail)
	}
	return wrong, output
}

// strikes waits until the fault is due, and lets it happen.
func (s *site) strikes(e *entry, j *job, fail func(string, ...any)) {
	due := func() bool { return j.up() >= e.ups }
	if e.ready != nil {
		due = func() bool { return e.ready(s) }
	}
	if !s.until(func() bool { return j.over() || due() }) || j.over() {
		fail("the fault was never due: %s", s.output(j))
	}
	if err := e.strike(s, j); err != nil {
		fail("the fault itself: %v", err)
	}
}

// strays are processes that belong to no site that rests.
func (s *site) strays(e *entry) (left []string) {
	for _, p := range s.processes() {
		if p.role == session && (e.cut || e.theirs) || p.role == shell && e.theirs {
			continue
		}
		left = append(left, p.String())
	}
	return left
}

// judge holds the exit code and what was printed against what the case promises.
func (e *entry) judge(j *job, fail func(string, ...any)) {
	text, _ := os.ReadFile(j.err)
	out, _ := os.ReadFile(j.out)
	if code := j.code(); !slices.Contains(e.code, code) {
		fail("exit code %d, not of %v", code, e.code)
	}
	if traces.Match(text) || traces.Match(out) {
		fail("it crashed")
	}
	if plain := strings.ReplaceAll(string(out), "up\n", ""); !regexp.MustCompile(e.out).MatchString(plain) {
		fail("standard output has not %q", e.out)
	}
	line := firstCause(string(text))
	prints, again := regexp.MustCompile(e.prints), 0
	for l := range strings.Lines(string(text)) {
		if heading.MatchString(l) && !waits.MatchString(l) && prints.MatchString(l) {
			again++
		}
	}
	switch {
	case e.prints == "" && line != "":
		fail("a line where none is due")
	case e.prints != "" && !prints.MatchString(line):
		fail("the line with the cause does not have %q: %s", e.prints, line)
	case e.prints != "" && e.prints != "." && again > 1:
		fail("%d lines have %q", again, e.prints)
	}
}

var (
	// heading is a line that stands for itself, and not for the one above it.
	heading = regexp.MustCompile(`^\r?ibrun: [^ ]`)
	waits   = regexp.MustCompile(`^\r?ibrun: (waiting for|launching,) `)
)

// firstCause is the first line that says what has failed. A table of nodes has a row for each.
func firstCause(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if strings.Contains(line, "ibrun: ") && !waits.MatchString(line) {
			lines = append(lines, strings.Trim(line, "\r\n"))
		}
	}
	switch {
	case len(lines) == 0:
		return ""
	case len(lines) > 2 && strings.HasSuffix(lines[0], "could not be reached"):
		rows := lines[2:]
		if len(rows) > 1 && strings.HasPrefix(rows[1], "ibrun:       | ") {
			return rows[0] + strings.TrimPrefix(rows[1], "ibrun:      ")
		}
		return rows[0]
	}
	return lines[0]
}

// target is the process of a role on a host.
type target struct{ host, role string }

// send signals processes of roles on a host, in the same instant.
func send(sig unix.Signal, host string, roles ...string) func(*site, *job) error {
	var targets []target
	for _, role := range roles {
		targets = append(targets, target{host, role})
	}
	return sendAll(sig, targets...)
}

// sendAll signals processes in the same instant: it takes hold of all of them before.
func sendAll(sig unix.Signal, targets ...target) func(*site, *job) error {
	return func(s *site, _ *job) error {
		var fds []int
		for _, at := range targets {
			p, err := s.at(at.role, at.host)
			if err != nil {
				return err
			}
			fd, err := s.aim(p)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			fds = append(fds, fd)
		}
		for i, fd := range fds {
			err := unix.PidfdSendSignal(fd, sig, nil, 0)
			if err != nil && (i == 0 || err != unix.ESRCH) { // one may end at once without the other
				return err
			}
		}
		return nil
	}
}

// interrupts sends signals to ibrun, which the kernel must not make one of.
func interrupts(signals ...unix.Signal) func(*site, *job) error {
	return func(_ *site, j *job) error {
		for i, sig := range signals {
			if i > 0 {
				<-time.After(100 * time.Millisecond)
			}
			if err := j.cmd.Process.Signal(sig); err != nil {
				return err
			}
		}
		return nil
	}
}
