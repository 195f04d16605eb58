package remote

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"ibrun/bootstrap/remote/native"
	"ibrun/internal/proc"
)

// process is a session's line when a program carries it: ssh, rsh, or the reaper
// of this very machine.
type process struct {
	*proc.Process
	in, out *os.File
	drain   chan struct{}
	reaper  bool          // of this very machine
	managed bool          // a resource manager's starter
	most    time.Duration // that such a one has to end by itself
}

// farewell is how long the starter of a resource manager may take to end when its agent has. One
// that is killed before leaves its manager to look for it, which holds the node's share of the job
// for seconds. A step of several hosts ends when all of them have.
const (
	farewell  = time.Second
	farewells = 5 * time.Second
)

// spawn starts the launcher's process.
func (s *Starter) spawn(t Target) (*Session, error) {
	local := s.local || t.Local
	ses := &Session{}
	return ses, s.carry(ses, carrier{s.argv(t), s.environ(local), local, s.most(t), &ses.stderr, farewell})
}

// carrier is a process that carries sessions.
type carrier struct {
	argv, env []string
	local     bool
	most      time.Duration // that its start may take
	stderr    io.Writer     // gets what it prints there
	farewell  time.Duration // of a resource manager's starter
}

// carry starts the process of a session.
func (s *Starter) carry(ses *Session, c carrier) error {
	path := "/proc/self/exe"
	if !c.local {
		p, err := exec.LookPath(c.argv[0])
		if err != nil {
			return err
		}
		path = p
	}
	var ours, theirs [3]*os.File // ends of the pipes for descriptors 0, 1 and 2 of the process
	closeAll := func(files [3]*os.File) {
		for _, f := range files {
			f.Close() // f may be nil: Close then returns an error, which is ignored
		}
	}
	for i := range ours {
		var err error
		if ours[i], theirs[i], err = os.Pipe(); err != nil {
			closeAll(ours)
			closeAll(theirs)
			return err
		}
	}
	ours[0], theirs[0] = theirs[0], ours[0] // os.Pipe returns the reading end first
	// A launcher dies with us, so that none is left behind. A reaper of this very
	// machine must not: it and its agent clean up first.
	p, err := proc.Start(proc.Cmd{Path: path, Argv: c.argv, Env: c.env, Files: theirs[:], Setsid: true,
		Orphan: c.local, Most: c.most})
	closeAll(theirs)
	if err != nil {
		closeAll(ours)
		return err
	}
	in, out, errs := ours[0], ours[1], ours[2]
	l := &process{p, in, out, make(chan struct{}), c.local, !c.local && s.alloc != nil, c.farewell}
	ses.Stdin, ses.Stdout, ses.local, ses.line, ses.began = in, out, c.local, l, time.Now()
	if !c.local {
		ses.launcher, ses.managed = filepath.Base(c.argv[0]), s.alloc != nil
	}
	go func() {
		defer close(l.drain)
		defer errs.Close()
		_, _ = io.Copy(c.stderr, errs)
	}()
	return nil
}

// environ is what a session's process sees. A local agent is not behind the
// connection by which the user came to this machine.
func (s *Starter) environ(local bool) []string {
	env := os.Environ()
	switch {
	case !local && s.alloc != nil:
		return s.alloc.environ()
	case !local:
		return env
	}
	return slices.DeleteFunc(env, func(e string) bool { return strings.HasPrefix(e, "SSH_CONNECTION=") })
}

// Kill ends the launcher's whole process group. A reaper is not killed, since its
// agent may be stopped and could not end what is below it: it sees the end of its link.
func (p *process) Kill() {
	if p.reaper {
		p.in.Close()
		p.out.Close()
		return
	}
	if p.managed {
		go func() {
			select {
			case <-p.Done():
			case <-time.After(p.most):
				p.SignalGroup(syscall.SIGKILL)
			}
		}()
		return
	}
	p.SignalGroup(syscall.SIGKILL)
}

// abandon is all that can be done from here: what runs at the other end of a
// launcher sees the end of its input.
func (p *process) abandon() {
	if p.managed {
		p.SignalGroup(syscall.SIGKILL)
		return
	}
	p.Kill()
}

// Pids returns nil after the process has ended, because the kernel may give its ID to another process.
func (p *process) Pids() []int {
	if p.Ended() {
		return nil
	}
	return []int{p.Pid()}
}

func (p *process) Release() { p.out.Close() }

func (p *process) drained() <-chan struct{} { return p.drain }

func (p *process) setLimit(t time.Time) {
	_ = p.out.SetReadDeadline(t)
	_ = p.in.SetWriteDeadline(t)
}

func (p *process) End() native.End {
	s := p.Status()
	if s.Signaled() {
		return native.End{Signal: s.Signal()}
	}
	return native.End{Code: s.ExitStatus()}
}

// inodes returns the inode numbers of the sockets of the process and its children. It returns nil after the process has
// ended.
func (p *process) inodes() (found []string) {
	for _, pid := range p.Pids() {
		children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
		for _, one := range append(strings.Fields(string(children)), strconv.Itoa(pid)) {
			found = append(found, sockets("/proc/"+one+"/fd/*")...)
		}
	}
	return found
}
