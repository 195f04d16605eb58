//go:build cluster || soak

package faults

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// job represents a started ibrun, which may have ended. Its standard output and error go to files. If they went to
// pipes, cmd.Wait would not return while any process that inherited the pipes still runs.
type job struct {
	cmd      *exec.Cmd
	out, err string
	ended    chan struct{}
}

func (s *site) start(words []string, env ...string) (*job, error) {
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
		close(j.ended)
	}()
	s.job = j
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

// up counts the ranks that have printed that they run.
func (j *job) up() int {
	text, _ := os.ReadFile(j.out)
	return bytes.Count(text, []byte("up\n"))
}

func (j *job) interrupt() { _ = j.cmd.Process.Signal(os.Interrupt) }

// awaitEnd waits for the end of ibrun, which it kills if it hangs.
func (s *site) awaitEnd(j *job, fail func(string, ...any)) {
	select {
	case <-j.ended:
	case <-time.After(patience):
		fail("ibrun still runs")
		_ = j.cmd.Process.Kill()
		<-j.ended
	}
}

func (s *site) output(j *job) string {
	out, _ := os.ReadFile(j.out)
	errs, _ := os.ReadFile(j.err)
	lines := strings.ReplaceAll(string(out), "up\n", "")
	return fmt.Sprintf("%.2000s%.6000s", lines, errs)
}

// traces matches what a crashed Go program prints.
var traces = regexp.MustCompile(`goroutine \d+ |panic: |fatal error: |runtime error|SIGSEGV: seg`)

// restore prepares the site for the next job. It calls undo, if it is not nil, to revert a fault. It then kills all
// processes of jobs and removes the files that they left. It calls fail for each error.
func (s *site) restore(undo func(*site) error, fail func(string, ...any)) {
	if undo != nil {
		if err := undo(s); err != nil {
			fail("reverting the fault: %v", err)
		}
	}
	gone := s.until(func() bool {
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
			_ = os.Remove(s.Root(host) + path) // os.RemoveAll could remove files that litter does not list
		}
	}
}
