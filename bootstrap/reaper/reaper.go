// Package reaper kills the processes that an agent leaves behind. It has two parts.
//
// A reaper is the parent process of an agent. When the agent ends, for whatever reason, the reaper kills all remaining
// descendants, however they were forked and in whatever session they are
// (docs/dev/decisions/0002-reaper-above-the-agent.md). It also kills an agent that still runs LinkPatience after its
// link has ended, or that has been stopped for StopPatience. A reaper has no data of the job and reads no message. If
// ibrun is built for x86-64 with the linker option -E ibrun/bootstrap/reaper.entry, as make build does, the process
// forks before the Go runtime starts (entry_linux_amd64.s), and the reaper never starts that runtime. Otherwise Main is
// the reaper, an additional Go process that does the same work and takes more time and memory.
//
// A Group is a control group of version 2 (cgroups(7)) for one job on one node. If an agent is allowed to make one, it
// starts the ranks of its node in it. All processes that the ranks fork belong to it too, and one write kills them all
// (docs/dev/decisions/0022-containment.md). A Group sets no limits, and no running process is moved into it.
package reaper

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ibrun/internal/proc"
	"ibrun/internal/safefile"
)

// The first arguments of the roles. entry_linux_amd64.s has them, too.
const (
	Role  = ":reaper" // becomes a reaper, which starts the agent with the arguments that follow
	Agent = ":agent"
	Sweep = ":sweep" // what a reaper becomes that has something to kill; its exit code follows
)

// Pipe is the descriptor on which an agent reads the end of its reaper, which
// alone holds the other end.
const Pipe = 3

// patience is how long a reaper goes on killing what will not die.
const patience = 10 * time.Second

// An agent whose link has ended ends its ranks and itself: after a grace of 2 s
// at most, and 5 s in which what was killed or is far away may still answer. One
// that is stopped has been given up by its parent after 60 s
// (bootstrap/core/detector.go), whether or not the news can come through. Seconds
// are counted, not measured: a reaper that was stopped itself blames nobody.
const (
	secondsWithoutLink = 10
	secondsStopped     = 70
)

// How long an agent may live on without its link, and how long it may be stopped.
const (
	LinkPatience = secondsWithoutLink * time.Second
	StopPatience = secondsStopped * time.Second
)

// relinkSignal is how an agent tells its reaper that it has another link. entry_linux_amd64.s has
// it, too.
const relinkSignal = syscall.Signal(41)

// passedBy is added to the number of a signal that a reaper passes on to its agent. So the agent
// knows it from one that somebody has sent to the agent itself.
const passedBy = 40

// Passed are the signals that a reaper passes on. A resource manager sends them to the process that
// it has started, and means the ranks.
var Passed = []syscall.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGTERM, syscall.SIGCONT, syscall.SIGURG}

// AsPassed is the signal by which a reaper passes another one on, and WasPassed is its reverse.
func AsPassed(s syscall.Signal) syscall.Signal { return s + passedBy }

// WasPassed is the signal that a reaper has passed on by s.
func WasPassed(s syscall.Signal) syscall.Signal { return s - passedBy }

// caught is where signals that are to be passed on come, each by a channel of its own: none takes
// the place of another.
type caught map[syscall.Signal]chan os.Signal

// catchPassed begins before there is anybody to pass signals on to: what comes meanwhile waits.
// SIGURG is left out: Go's own runtime sends it to itself.
func catchPassed() caught {
	c := caught{}
	for _, s := range Passed {
		if s != syscall.SIGURG {
			c[s] = make(chan os.Signal, 1)
			signal.Notify(c[s], s)
		}
	}
	return c
}

// passOn hands a process what a resource manager sends to this one.
func (c caught) passOn(to int, as func(syscall.Signal) syscall.Signal) {
	for s, comes := range c {
		go func() {
			for range comes {
				_ = syscall.Kill(to, as(s))
			}
		}()
	}
}

// Relinked tells this agent's reaper that there is another link: the end of the one that the reaper
// has seen is not the agent's end.
func Relinked() { _ = syscall.Kill(os.Getppid(), relinkSignal) }

// oneThread lets Go's runtime begin with what the agent wants, instead of
// stopping it for a change. Ranks do not see the agent's environment.
const oneThread = "GOMAXPROCS=1"

// Main is a reaper that has begun in Go. args go to the agent, besides this
// process's descriptors 0, 1 and 2. It returns the exit code for this process,
// which is the agent's, or 128 and the signal that killed it.
func Main(args []string) int {
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(20)
	if err := proc.BecomeSubreaper(); err != nil {
		fmt.Fprintf(os.Stderr, "ibrun: cannot adopt orphans on this node: %v\n", err)
		return 125
	}
	shrug()
	watch, alive, err := os.Pipe()
	if err != nil {
		fmt.Fprintf(os.Stderr, "ibrun: reaper: %v\n", err)
		return 125
	}
	relinked := make(chan os.Signal, 1)
	signal.Notify(relinked, relinkSignal) // before there is an agent that may send it
	signals := catchPassed()
	// The agent outlives the reaper for as long as it takes to clean up, and a
	// signal to the reaper's group does not reach it: if both died at once, what
	// forked away from the ranks would stay.
	p, err := proc.Start(proc.Cmd{
		Path: "/proc/self/exe", Argv: append([]string{os.Args[0], Agent}, args...),
		Env: append(os.Environ(), oneThread), Setsid: true, Orphan: true,
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr, watch},
	})
	if err != nil {
		fmt.Fprintf(os.Stderr, "ibrun: reaper: %v\n", err)
		return 125
	}
	watch.Close()
	signals.passOn(p.Pid(), AsPassed)
	link := holdLink()
	ended := outlive(p.Done(), link.watch(), stops(p.Pid()), relinked)
	link.close()
	cleanUp()
	runtime.KeepAlive(alive)
	if !ended {
		return 128 + int(syscall.SIGKILL)
	}
	return exitCode(p.Status())
}

// exitCode returns the exit code that a shell reports for a process that has ended: its own code, or 128 plus the
// number of the signal that killed it.
func exitCode(s syscall.WaitStatus) int {
	if s.Exited() {
		return s.ExitStatus()
	}
	return 128 + int(s.Signal())
}

// cleanUp kills the descendants of this process, which remain after the agent has ended. It also removes unused
// control groups, and the files in temporary directories and shared memory that killed processes of this user have
// left.
func cleanUp() {
	proc.KillDescendants(patience)
	tidy(unused)
	safefile.SweepNode()
}

// outlive waits for the end of an agent, and reports whether it has come: it has
// not when the agent has lost its link, or is stopped, for too long.
// The end of a link counts no more when there is another one, which only the agent watches.
func outlive(done, lost <-chan struct{}, stopped <-chan bool, relinked <-chan os.Signal) (ended bool) {
	left := 0 // seconds that the agent has; 0: as long as it likes
	linked := true
	for {
		var second <-chan time.Time
		if left > 0 {
			second = time.After(time.Second)
		}
		select {
		case <-done:
			return true
		case <-lost:
			lost, linked = nil, false
			if left == 0 || left > secondsWithoutLink {
				left = secondsWithoutLink
			}
		case <-relinked:
			lost, linked, left = nil, true, 0
		case is := <-stopped:
			if is && left == 0 {
				left = secondsStopped
			} else if !is && linked {
				left = 0
			}
		case <-second:
			if left--; left == 0 {
				return false
			}
		}
	}
}

// stops tells when a child is stopped (true) and continued (false). It reaps nothing.
func stops(pid int) <-chan bool {
	c := make(chan bool)
	go func() {
		for {
			var info unix.Siginfo
			switch err := unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WCONTINUED, nil); err {
			case nil:
				c <- info.Code == cldStopped
			case unix.EINTR:
			default:
				return // it is no child any more
			}
		}
	}()
	return c
}

// cldStopped is CLD_STOPPED of siginfo_t(3).
const cldStopped = 5

// link is what a reaper keeps of its agent's link: standard input, of which it
// sees the end and reads nothing.
type link struct{ wake, waker *os.File }

// holdLink lets go of standard output and error.
func holdLink() *link {
	letGo(1, 2)
	l := &link{}
	var err error
	if l.wake, l.waker, err = os.Pipe(); err != nil {
		letGo(0)
	}
	return l
}

// watch returns what is closed when the other end of the link has been closed,
// for writing at least.
func (l *link) watch() <-chan struct{} {
	lost := make(chan struct{})
	if l.wake == nil {
		return lost
	}
	at := []unix.PollFd{{Fd: 0, Events: unix.POLLRDHUP}, {Fd: int32(l.wake.Fd())}}
	go func() {
		for at[0].Revents|at[1].Revents == 0 {
			_, _ = unix.Poll(at, -1)
		}
		letGo(0)
		close(lost)
	}()
	return lost
}

// close gives the link up; the agent's end is its end from then on.
func (l *link) close() {
	if l.waker != nil {
		l.waker.Close()
	}
	letGo(0)
}

// letGo puts descriptors where nobody hears of them.
func letGo(fds ...int) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return
	}
	for _, fd := range fds {
		_ = syscall.Dup3(int(null.Fd()), fd, 0)
	}
	null.Close()
}

// shrug lets no signal end a reaper that can be kept from it.
func shrug() { proc.Shrug(syscall.SIGINT, syscall.SIGHUP, syscall.SIGPIPE, syscall.SIGTERM) }

// SweepMain is a reaper that has done without Go until something was left of its
// agent: it kills that, and returns the exit code in args[0].
func SweepMain(args []string) int {
	shrug()
	cleanUp()
	if len(args) != 1 {
		return 125
	}
	code, err := strconv.ParseUint(args[0], 10, 8)
	if err != nil {
		return 125
	}
	return int(code)
}
