// Package proc starts child processes, signals them and reaps them. An agent adopts orphans (PR_SET_CHILD_SUBREAPER),
// so only one goroutine may wait for children, and this package starts all children of an agent: ranks, remote shells
// and debuggers.
//
// Read and Tree.Start read files of procfs and sysfs with three or four system calls each, where an os.File needs twice
// as many. An agent reads about a hundred such files before its ranks start.
package proc

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

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
	Setpgid  bool
	Terminal bool   // descriptor 0 becomes the terminal of a session of its own
	Thread   Thread // what it inherits besides
	// Group is the folder of a control group in which it is born; nil: this process's own. It is
	// born in this process's own, too, if the kernel refuses.
	Group *os.File
	// Orphan lets the process outlive this one; otherwise it is killed with it.
	Orphan bool
	Most   time.Duration // time limit for the start of the program; 0 means no limit
	Hold   bool          // stop the process before the first instruction of its program
	Limits []RLimit      // limits of the program that differ from this process's own
}

// RLimit is a resource limit (getrlimit(2)). The kernel reads Soft and Hard as a struct rlimit64, so they stay together
// in this order.
type RLimit struct {
	Resource   int
	Soft, Hard uint64
}

// Process is a started child.
type Process struct {
	pid    int
	done   chan struct{}
	status syscall.WaitStatus
}

// waiting is the table of children that have not been reaped.
var waiting struct {
	sync.Mutex
	live  map[int]*Process
	over  bool // there was no child when last looked, and none was started here since
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
		go takeOrders()
	default:
	}
	spawners.orders <- order
}

// takeOrders forks on a thread of its own, and never on the main thread: /proc shows the affinity
// of that one as the affinity of the whole process.
func takeOrders() {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		another := make(chan struct{})
		go func() {
			runtime.LockOSThread() // not the main thread, which is locked to its parent
			close(another)
			takeOrders()
		}()
		<-another
		runtime.UnlockOSThread()
		return
	}
	here := newStation()
	for order := range spawners.orders {
		order(here)
	}
}

// BecomeSubreaper makes this process the parent of all orphans below it.
func BecomeSubreaper() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("prctl: %w", err)
	}
	return nil
}

// Start starts a process. The error is an *os.PathError with the errno of chdir or
// exec, or Hung, or one of fork; or it says what the thread could not be given.
func Start(c Cmd) (p *Process, err error) {
	Row(func(begin Beginner) { p, err = begin(c).Result() })
	return p, err
}

// Beginner begins to start a process. Result of what it returns is to be called once.
type Beginner func(Cmd) *Birth

// Row lets f start several processes, with what it is given instead of Start:
// all of it runs on one of the threads that fork, since going there and back for
// each process takes half as long as the fork. f must not call Start. While a process becomes its
// program, f can begin the next one.
func Row(f func(Beginner)) {
	waiting.start.Do(startReaping)
	finished := make(chan struct{})
	spawn(func(here *station) {
		defer close(finished)
		f(func(c Cmd) *Birth {
			b := &Birth{cmd: c}
			if b.err = here.become(c.Thread); b.err == nil {
				b.birth, b.process, b.err = begin(c)
			}
			return b
		})
	})
	<-finished
}

// Birth is a process that may not be its program yet.
type Birth struct {
	birth   *birth
	cmd     Cmd
	process *Process
	err     error // why it was not even forked
}

// Result waits until the process is its program, or cannot become it, or its time is up. The error
// is as Start's.
func (b *Birth) Result() (*Process, error) {
	if b.err != nil || b.cmd.Hold { // which is its program since it was forked
		return b.process, b.err
	}
	if err := b.birth.result(b.cmd); err != nil {
		b.process.Signal(syscall.SIGKILL) // it may hang
		return nil, err
	}
	return b.process, nil
}

// begin forks. The reaping goroutine looks a pid up under the same lock, so it cannot see a
// child before the child is in the table, nor what a child does that is to be held.
func begin(c Cmd) (b *birth, p *Process, err error) {
	files := make([]int, len(c.Files))
	for i, f := range c.Files {
		files[i] = -1
		if f != nil {
			files[i] = int(f.Fd())
		}
	}
	waiting.Lock()
	defer waiting.Unlock()
	pid, b, err := fork(c, files)
	if err != nil {
		return nil, nil, err
	}
	p = &Process{pid: pid, done: make(chan struct{})}
	waiting.live[pid], waiting.over = p, false
	if c.Hold {
		if err = c.hold(pid, b); err != nil {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may hang
			return nil, nil, err
		}
	}
	return b, p, nil
}

// debugged says that a debugger has its breakpoints in this process.
var debugged atomic.Bool

// KeepBreakpoints makes sure that breakpoints of a debugger in this process survive the start of children. From now on
// this process is suspended until a child has executed its program. Until then the child shares the memory of this
// process, and a debugger that detaches from the child removes its breakpoints from that memory. It inserts them again
// when the kernel reports the end of the vfork.
func KeepBreakpoints() { debugged.Store(true) }

// Hung is the error of a start that took longer than Cmd.Most.
type Hung time.Duration

func (h Hung) Error() string {
	return fmt.Sprintf("it has not returned for %v", time.Duration(h))
}

func startReaping() {
	waiting.live = map[int]*Process{}
	ended := make(chan os.Signal, 1) // one is enough: reapAll takes all there are
	signal.Notify(ended, syscall.SIGCHLD)
	go reap(ended)
}

// reap collects the exit statuses of children, including adopted ones, whenever SIGCHLD arrives. It does not block in
// wait(2), because the blocked thread would keep its P of the Go scheduler for about a millisecond, and an agent
// usually has only one P (internal/poll).
func reap(ended <-chan os.Signal) {
	for {
		reapAll()
		<-ended
	}
}

// reapAll leaves children alone that something else has started since ours were over: os/exec waits
// for its own.
func reapAll() {
	waiting.Lock()
	defer waiting.Unlock()
	for !waiting.over {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if p := waiting.live[pid]; p != nil {
			delete(waiting.live, pid)
			p.status = status
			defer close(p.done) // when it is known whether there is another child
		}
		switch {
		case err == syscall.ECHILD:
			waiting.over = true
		case err != nil && err != syscall.EINTR || pid == 0:
			return
		}
	}
}

// Pid is the process's number. It may name another process after Done.
func (p *Process) Pid() int { return p.pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Ended reports whether Done is closed.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Dying reports whether the process has ended or the kernel takes it apart, so that no signal will
// be the reason. That lasts, if it has much memory or large files, and others may have seen its
// connections end.
func (p *Process) Dying() bool {
	waiting.Lock() // or it could be reaped meanwhile
	defer waiting.Unlock()
	return waiting.live[p.pid] != p || exiting(p.pid)
}

// Status says how the process ended; call it after Done.
func (p *Process) Status() syscall.WaitStatus { return p.status }

// Signal sends a signal to the process, if it has not been reaped.
func (p *Process) Signal(s syscall.Signal) { p.signal(p.pid, s) }

// SignalGroup sends a signal to the process group that the process leads. The
// group may outlive its leader, so this works as long as the number is ours.
func (p *Process) SignalGroup(s syscall.Signal) { p.signal(-p.pid, s) }

func (p *Process) signal(to int, s syscall.Signal) {
	waiting.Lock()
	defer waiting.Unlock()
	if waiting.live[p.pid] == p {
		_ = syscall.Kill(to, s)
	}
}
