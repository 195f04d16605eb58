// Package proc starts child processes and reaps them. An agent adopts orphans
// (PR_SET_CHILD_SUBREAPER), so exactly one goroutine may wait: every child
// process of an agent, rank or remote shell, is started here. The package
// knows nothing of jobs.
package proc

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Cmd is a process to start. Nothing is inherited that is not named here.
type Cmd struct {
	Path   string // the file, not looked up
	Argv   []string
	Env    []string
	Dir    string     // empty: this process's own
	Files  []*os.File // descriptors 0, 1, 2, ...; nil is closed
	Setsid bool       // a session, and so a process group, of its own
	// Setpgid makes it a process group in this process's session. Of the session depends
	// the kernel's autogroup (sched(7)): within one, processes share CPU time one by one,
	// and sched_yield lets others go first.
	Setpgid bool
	Thread  Thread // what it inherits besides
	// Orphan lets the process outlive this one; otherwise it is killed with it.
	Orphan bool
}

// Process is a started child.
type Process struct {
	pid    int
	done   chan struct{}
	status syscall.WaitStatus
}

// reaper is the table of children that have not been reaped.
var reaper struct {
	sync.Mutex
	live  map[int]*Process
	wake  chan struct{} // capacity 1: there is a child again
	start sync.Once
}

// spawners take orders to fork. A parent-death signal comes when the thread
// that forked dies (golang.org/issue/27505), so each is locked to a thread
// that lives as long as the process.
var spawners = struct {
	orders chan func(*station)
	room   chan struct{} // of threads that may still be started
}{make(chan func(*station)), make(chan struct{}, spawnerThreads)}

// spawnerThreads is the most threads that fork: more gain nothing, since the
// runtime lets one fork at a time. Most agents need one.
const spawnerThreads = 2

// spawn gives an order to a thread that is free, or to one that is started for it,
// or waits.
func spawn(order func(*station)) {
	select {
	case spawners.orders <- order:
		return
	default:
	}
	select {
	case spawners.room <- struct{}{}:
		go func() {
			runtime.LockOSThread()
			here := newStation()
			for order := range spawners.orders {
				order(here)
			}
		}()
	default:
	}
	spawners.orders <- order
}

// BecomeSubreaper makes this process the parent of all orphans below it.
func BecomeSubreaper() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("prctl: %w", err)
	}
	return nil
}

// Start starts a process. The error is an *os.PathError with the errno of
// fork, chdir or exec, or says what the thread could not be given.
func Start(c Cmd) (p *Process, err error) {
	Row(func(start func(Cmd) (*Process, error)) { p, err = start(c) })
	return p, err
}

// Row lets f start several processes, with what it is given instead of Start:
// all of it runs on one of the threads that fork, since going there and back for
// each process takes half as long as the fork. f must not call Start.
func Row(f func(start func(Cmd) (*Process, error))) {
	reaper.start.Do(startReaper)
	finished := make(chan struct{})
	spawn(func(here *station) {
		defer close(finished)
		f(func(c Cmd) (*Process, error) {
			if err := here.become(c.Thread); err != nil {
				return nil, err
			}
			return start(c)
		})
	})
	<-finished
}

func start(c Cmd) (*Process, error) {
	files := make([]uintptr, len(c.Files))
	for i, f := range c.Files {
		files[i] = ^uintptr(0)
		if f != nil {
			files[i] = f.Fd()
		}
	}
	own := &syscall.SysProcAttr{Setsid: c.Setsid, Setpgid: c.Setpgid}
	attr := &syscall.ProcAttr{Dir: c.Dir, Env: c.Env, Files: files, Sys: own}
	if !c.Orphan {
		attr.Sys.Pdeathsig = syscall.SIGKILL
	}
	// The reaper looks a pid up under the same lock, so it cannot see a child
	// before the child is in the table.
	reaper.Lock()
	defer reaper.Unlock()
	pid, err := syscall.ForkExec(c.Path, c.Argv, attr)
	if err != nil {
		return nil, &os.PathError{Op: "exec", Path: c.Path, Err: err}
	}
	p := &Process{pid: pid, done: make(chan struct{})}
	reaper.live[pid] = p
	select {
	case reaper.wake <- struct{}{}:
	default:
	}
	return p, nil
}

func startReaper() {
	reaper.live = map[int]*Process{}
	reaper.wake = make(chan struct{}, 1)
	go reap()
}

// reap waits for every child there is, adopted ones included.
func reap() {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOWAIT, nil)
		switch err {
		case nil:
			reapAll()
		case unix.EINTR:
		default: // no child at all
			<-reaper.wake
		}
	}
}

func reapAll() {
	for {
		reaper.Lock()
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		p := reaper.live[pid]
		delete(reaper.live, pid)
		reaper.Unlock()
		if p != nil {
			p.status = status
			close(p.done)
		}
		if err != nil && err != syscall.EINTR || pid == 0 {
			return
		}
	}
}

// Pid is the process's number. It may name another process after Done.
func (p *Process) Pid() int { return p.pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Status says how the process ended; call it after Done.
func (p *Process) Status() syscall.WaitStatus { return p.status }

// Signal sends a signal to the process, if it has not been reaped.
func (p *Process) Signal(s syscall.Signal) { p.signal(p.pid, s) }

// SignalGroup sends a signal to the process group that the process leads. The
// group may outlive its leader, so this works as long as the number is ours.
func (p *Process) SignalGroup(s syscall.Signal) { p.signal(-p.pid, s) }

func (p *Process) signal(to int, s syscall.Signal) {
	reaper.Lock()
	defer reaper.Unlock()
	if reaper.live[p.pid] == p {
		_ = syscall.Kill(to, s)
	}
}
