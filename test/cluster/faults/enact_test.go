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

// file is a placeholder for the name of a file with the input.
const file = "FILE"

// entry is one case of the catalogue of faults.
type entry struct {
	class string // A input, B launch, C running, D attacks
	fault string
	soak  bool // only make soak plays it, since other cases show nearly the same

	// shell holds arguments that precede the command line of ibrun, such as those of a shell that redirects or sets
	// limits.
	shell []string
	args  []string // options, hosts and program; FILE is replaced by the path of the file below
	file  string   // the content of the file
	// before and after are called when no job runs. They break a node, and repair it.
	before, after func(*site) error
	// ready reports whether the fault is due. If it is nil, the fault is due when ups ranks have printed "up".
	ready      func(*site) bool
	ups        int
	strike     func(*site, *job) error // nil if the fault exists from the beginning
	code       []int
	prints     string // a regular expression for the line with the cause, or "" if there must be no such line
	out        string // a regular expression that standard output matches after all lines "up" are removed
	check      func(*site) error
	cut        bool // sshd does not notice that sessions have ended, and keeps them
	wiped      bool // files may stay until the node's next job
	ships      bool // the binary is sent to nodes
	keepsShell bool // a hung login shell of root and its session may stay, because sshd does not signal them
}

func (e entry) String() string { return e.class + " " + e.fault }

// words returns the command line of the case. It replaces FILE by the path of the input file. If e.ships is set, the
// program has a path that nodes do not see.
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

// enact runs a case on a site without a job. It returns one text for each violated expectation, and the output of
// ibrun. Afterwards the site is ready for the next case.
func (s *site) enact(e *entry) (wrong []string, output string) {
	fail := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	if err := os.WriteFile(filepath.Join(s.dir, "input"), []byte(e.file), 0o644); err != nil {
		fail("%v", err)
	}
	var known []string
	if e.before != nil {
		if err := e.before(s); err != nil {
			fail("preparing the fault: %v", err)
		}
		known = s.litter()
	}
	j, err := s.start(e.words(s))
	if err != nil {
		fail("starting ibrun: %v", err)
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
	if e.after != nil || len(known) > 0 || e.cut || e.keepsShell || e.wiped || len(wrong) > 0 {
		s.restore(e.after, fail)
	}
	return wrong, output
}

// strikes waits until the fault is due, and applies it.
func (s *site) strikes(e *entry, j *job, fail func(string, ...any)) {
	due := func() bool { return j.up() >= e.ups }
	if e.ready != nil {
		due = func() bool { return e.ready(s) }
	}
	if !s.until(func() bool { return j.over() || due() }) || j.over() {
		fail("the fault was never due: %s", s.output(j))
	}
	if err := e.strike(s, j); err != nil {
		fail("applying the fault: %v", err)
	}
}

// strays returns the processes of jobs on the site, except for those that e allows to stay.
func (s *site) strays(e *entry) (left []string) {
	for _, p := range s.processes() {
		if p.role == session && (e.cut || e.keepsShell) || p.role == shell && e.keepsShell {
			continue
		}
		left = append(left, p.String())
	}
	return left
}

// judge calls fail for each difference between the exit code and output of j and those that the case requires.
func (e *entry) judge(j *job, fail func(string, ...any)) {
	text, _ := os.ReadFile(j.err)
	out, _ := os.ReadFile(j.out)
	if code := j.code(); !slices.Contains(e.code, code) {
		fail("exit code %d, not one of %v", code, e.code)
	}
	if traces.Match(text) || traces.Match(out) {
		fail("it crashed")
	}
	if plain := strings.ReplaceAll(string(out), "up\n", ""); !regexp.MustCompile(e.out).MatchString(plain) {
		fail("standard output does not match %q", e.out)
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
		fail("standard error has a message, want none")
	case e.prints != "" && !prints.MatchString(line):
		fail("the line with the cause does not have %q: %s", e.prints, line)
	case e.prints != "" && e.prints != "." && again > 1:
		fail("%d lines have %q", again, e.prints)
	}
}

var (
	// heading matches the first line of a message. Further lines of a message have more spaces after "ibrun:" and do
	// not match.
	heading = regexp.MustCompile(`^\r?ibrun: [^ ]`)
	waits   = regexp.MustCompile(`^\r?ibrun: (waiting for|launching,) `)
)

// firstCause returns the first line of a message in text, or "" if there is none. It ignores progress messages. If the
// line is the heading of a table of nodes that could not be reached, firstCause returns the first row of the table
// instead.
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

// send returns a function for the field strike of an entry. The function sends sig to one process of each role on a
// host.
func send(sig unix.Signal, host string, roles ...string) func(*site, *job) error {
	var targets []target
	for _, role := range roles {
		targets = append(targets, target{host, role})
	}
	return sendAll(sig, targets...)
}

// sendAll returns a function for the field strike of an entry. The function opens a pidfd of each target before it
// sends the first signal, because looking for a process takes too long to do it between two signals.
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
			if err != nil && (i == 0 || err != unix.ESRCH) { // the first signal may have ended further targets
				return err
			}
		}
		return nil
	}
}

// interrupts returns a function for the field strike of an entry. The function sends the signals to ibrun at intervals
// of 100 ms, so that the kernel does not merge equal signals.
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
