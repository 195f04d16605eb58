package faults

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// job is an ibrun that runs. Its output goes to files, so that its end is its own and not that
// of whatever holds a pipe.
type job struct {
	cmd      *exec.Cmd
	out, err string
	ended    chan struct{}
	endedAt  time.Time
}

func (s *site) start(words []string) (*job, error) { return s.startWith(nil, words) }

// startWith is start with variables of its own.
func (s *site) startWith(env, words []string) (*job, error) {
	j := &job{out: filepath.Join(s.dir, "out"), err: filepath.Join(s.dir, "err"), ended: make(chan struct{})}
	temporary := filepath.Join(s.dir, "tmp")
	if err := os.MkdirAll(temporary, 0o700); err != nil {
		return nil, err
	}
	out, err := os.Create(j.out)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	errs, err := os.Create(j.err)
	if err != nil {
		return nil, err
	}
	defer errs.Close()
	j.cmd = s.Command(s.ctx, words...)
	j.cmd.Stdout, j.cmd.Stderr = out, errs
	j.cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+filepath.Join(s.dir, "cache"), "TMPDIR="+temporary)
	j.cmd.Env = append(j.cmd.Env, env...)
	if err := j.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = j.cmd.Wait()
		j.endedAt = time.Now()
		close(j.ended)
	}()
	return j, nil
}

func (j *job) over() bool {
	select {
	case <-j.ended:
		return true
	default:
		return false
	}
}

func (j *job) code() int {
	if status := j.cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
		return 128 + int(status.Signal())
	}
	return j.cmd.ProcessState.ExitCode()
}

// up counts the ranks that have said that they run.
func (j *job) up() int {
	text, _ := os.ReadFile(j.out)
	return bytes.Count(text, []byte("up\n"))
}

const (
	launch  = "launch"
	running = "running"
	ending  = "ending"

	longestLaunch = 90 * time.Second // of 16 nodes, beside other clusters
	// A job that runs so long after a fault goes on.
	endedWithin    = 5 * time.Second
	cutEndedWithin = 15 * time.Second
)

// play runs one round, and leaves the site as it was.
func (s *site) play(r *round) (o outcome) {
	began := time.Now()
	defer func() { o.took = time.Since(began) }()
	fail := func(format string, args ...any) { o.wrong = append(o.wrong, fmt.Sprintf(format, args...)) }
	if r.shape.fresh {
		for _, host := range r.shape.hosts {
			_ = os.RemoveAll(filepath.Join(s.Root(host), "root/.cache/ibrun"))
		}
	}
	words := append([]string{program}, r.shape.args...)
	words = append(words, "--hosts", strings.Join(r.shape.hosts, ","))
	j, err := s.start(append(words, r.shape.words(s.ranks)...))
	if err != nil {
		fail("starting it: %v", err)
		return o
	}
	s.job = j
	if !s.reach(r, j) && !j.over() {
		fail("it was not %s in %v", r.fault.phase, longestLaunch)
	}
	o.happened, err = r.fault.strike(s, r)
	struck := time.Now()
	o.missed = errors.Is(err, unix.ESRCH)
	if err != nil && !o.missed {
		fail("%v", err)
	}
	from, wentOn := s.untilEnd(r, j, struck, o.missed)
	if !j.over() {
		fail("ibrun runs %v after it", time.Since(from).Round(time.Second))
		_ = j.cmd.Process.Kill()
		<-j.ended
	}
	o.ended = j.endedAt.Sub(from)
	o.output = s.output(j)
	o.wrong = append(o.wrong, s.judge(r, j, o.missed || wentOn)...)
	left := s.left(r, struck, from)
	if len(left) > 0 {
		fail("left after %v:\n\t%s", time.Since(from).Round(time.Second), strings.Join(left, "\n\t"))
	}
	o.cleaned = time.Since(from)
	s.restore(r, fail)
	return o
}

func (j *job) interrupt() { _ = j.cmd.Process.Signal(os.Interrupt) }

// interrupts tells whether the job is brought to its end by an interrupt.
func (r *round) interrupts() bool { return r.fault.phase == ending && r.shape.program != brief }

// reach waits for the phase in which the fault is to come.
func (s *site) reach(r *round, j *job) bool {
	started := r.rng.IntN(len(r.shape.hosts) + 1) // so many agents, during a launch
	if r.fault.litters {                          // a shell is what comes before an agent
		started = 0
	}
	return s.until(longestLaunch, func() bool {
		if j.up() == r.shape.ranks() || j.over() {
			return true
		}
		return r.fault.phase == launch && len(s.of(agent, "")) >= started && len(s.of(root, "")) > 0
	})
}

// of are the processes of a role, on one host or all.
func (s *site) of(role, host string) (found []process) {
	for _, p := range s.processes() {
		if p.role == role && (host == "" || host == p.host) {
			found = append(found, p)
		}
	}
	return found
}

// untilEnd waits for the end of ibrun. A job that goes on, and may, is interrupted; from is
// when the end could be expected from.
func (s *site) untilEnd(r *round, j *job, struck time.Time, missed bool) (from time.Time, wentOn bool) {
	f := r.fault
	calm, most := struck, endedWithin
	if f.cutOff {
		most = cutEndedWithin
	}
	goesOn := (f.goesOn || missed) && !r.interrupts() && s.until(longestLaunch, func() bool {
		if j.up() < r.shape.ranks() {
			calm = time.Now()
		}
		return j.over() || missed && j.up() == r.shape.ranks() || time.Since(calm) > most
	})
	if goesOn && !j.over() {
		struck, wentOn = time.Now(), true
		j.interrupt()
	}
	most = f.end + slack
	if f.phase == launch {
		most += longestLaunch
	}
	s.until(most-time.Since(struck), j.over)
	return struck, wentOn
}

func (s *site) output(j *job) string {
	out, _ := os.ReadFile(j.out)
	errs, _ := os.ReadFile(j.err)
	lines := strings.ReplaceAll(string(out), "up\n", "")
	return fmt.Sprintf("%.2000s%.6000s", lines, errs)
}

// traces are what a program of Go says when it crashes.
var traces = regexp.MustCompile(`goroutine \d+ |panic: |fatal error: |runtime error|SIGSEGV: seg`)

// judge holds what ibrun said against its promises.
func (s *site) judge(r *round, j *job, interrupted bool) (wrong []string) {
	text, _ := os.ReadFile(j.err)
	code, allowed := j.code(), []int{r.fault.code}
	switch {
	case interrupted || r.interrupts():
		allowed = append(allowed, 130, 0)
	case r.fault.phase == ending:
		allowed = append(allowed, 0)
	case r.fault.phase == launch && r.fault.code != 0:
		allowed = append(allowed, 125)
	}
	if !slices.Contains(allowed, code) {
		wrong = append(wrong, fmt.Sprintf("exit code %d, not one of %v", code, allowed))
	}
	if traces.Match(text) {
		wrong = append(wrong, "it crashed")
	}
	silent := []int{0, 130, 128 + int(unix.SIGKILL)}
	if !slices.Contains(silent, code) && !bytes.Contains(text, []byte("ibrun: ")) {
		wrong = append(wrong, "nothing says why")
	}
	lost := code == 125 && r.fault.phase == running
	if lost && !bytes.Contains(text, []byte(r.fault.victim)) {
		wrong = append(wrong, "nothing names "+r.fault.victim)
	}
	return wrong
}

// left waits until nothing is left of the job, and returns what is.
func (s *site) left(r *round, struck, from time.Time) (left []string) {
	most := r.fault.clean + slack
	if r.fault.phase == launch { // a session that nothing tells ends by its own limits
		most = max(most, 61*time.Second+slack)
	}
	s.until(max(most-time.Since(struck), most-time.Since(from)), func() bool {
		left = left[:0]
		for _, p := range s.processes() {
			if r.fault.cutOff && p.role == session { // sshd waits for its kernel, and is not ours
				continue
			}
			left = append(left, p.String())
		}
		return len(left) == 0
	})
	if len(left) > 0 || r.fault.litters {
		return left
	}
	return s.litter()
}

// restore takes back the fault, and ends what is left, so that the next round begins with nothing.
func (s *site) restore(r *round, fail func(string, ...any)) {
	if r.fault.undo != nil {
		if err := r.fault.undo(s, r); err != nil {
			fail("taking it back: %v", err)
		}
	}
	gone := s.until(30*time.Second, func() bool {
		left := s.processes()
		for _, p := range left {
			_ = s.signal(p, unix.SIGKILL)
		}
		return len(left) == 0
	})
	if !gone {
		fail("SIGKILL does not end %v", s.processes())
	}
	for _, path := range s.litter() {
		if host, path, ok := strings.Cut(path, ":"); ok {
			_ = os.Remove(s.Root(host) + path) // never more than was looked at
		}
	}
}
