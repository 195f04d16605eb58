package proc

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"ibrun/internal/limits"
)

// A child shares this process's memory until it has become its program, as after
// vfork(2), but this process does not stand still for so long. syscall.ForkExec lets it:
// its thread waits in the kernel, and the runtime takes that thread to be running,
// so that one program on a file system that does not answer stops the whole process.
// This is what posix_spawn(3) does, with the waiting done apart, and with an end.

// birth is what a child needs to become its program. The memory is both its own and
// this process's, which only reads of it until it is over.
type birth struct {
	path, dir *byte
	argv, env []*byte   // with a nil at the end
	files     []int     // descriptors for 0, 1, 2, ...; -1: closed
	alive     int       // the end of a pipe that closes when it is over
	over      int       // the other end of the pipe
	until     time.Time // when that is too late, if there is such a time
	parent    int       // which the child must not outlive; 0: it may
	session   bool
	group     bool
	hold      bool         // this process traces it
	terminal  bool         // descriptor 0 becomes the controlling terminal of its session
	mask      uint64       // signals that are blocked when the program starts
	open      limits.Limit // limit of open files for the program; package os has raised this process's own
	limits    []RLimit     // set in the child before exec; one that the kernel refuses is ignored
	step      step
	errno     int // error number of the step that failed
	old, none action
	stack     []byte
	into      cloneArgs
}

// cloneArgs is struct clone_args of clone3(2), up to its field cgroup.
type cloneArgs struct {
	flags                        uint64
	_                            [3]uint64 // pidfd, child_tid, parent_tid
	exitSignal, stack, stackSize uint64
	_                            [3]uint64 // tls, set_tid, set_tid_size
	cgroup                       uint64
}

type step int32

const (
	preparing step = iota
	tracing
	entering // its directory
	executing
)

// action is struct kernel_sigaction.
type action struct{ handler, flags, restorer, mask uintptr }

// slack is the timer slack of a program, in ns: the kernel's default. The agent's own may be more
// (bootstrap/reaper/entry_linux_amd64.s).
const slack = 50_000

const (
	signals = 64
	notBorn = 253 // exit code of a child that did not become its program
	// childStack is enough, as inChild may not grow its stack: Go's linker allows 800 bytes for
	// that. No signal is delivered on it.
	childStack = 2 << 10
)

// hung are births that were not over in time: a child may yet need the memory.
var hung struct {
	sync.Mutex
	births []*birth
}

func newBirth(c Cmd, files []int) (b *birth, err error) {
	b = &birth{files: files, session: c.Setsid || c.Terminal, group: c.Setpgid, terminal: c.Terminal, hold: c.Hold, limits: c.Limits}
	b.open, b.stack = limits.Original()[syscall.RLIMIT_NOFILE], make([]byte, childStack)
	if b.path, err = syscall.BytePtrFromString(c.Path); err != nil {
		return nil, err
	}
	if b.argv, err = syscall.SlicePtrFromStrings(c.Argv); err != nil {
		return nil, err
	}
	if b.env, err = syscall.SlicePtrFromStrings(c.Env); err != nil {
		return nil, err
	}
	if c.Dir != "" {
		if b.dir, err = syscall.BytePtrFromString(c.Dir); err != nil {
			return nil, err
		}
	}
	if !c.Orphan {
		b.parent = os.Getpid()
	}
	return b, nil
}

// clone makes a child that goes on at run with b and below stack.
func clone(flags uintptr, stack unsafe.Pointer, run uintptr, b *birth) (pid uintptr)

// clone3 is clone with what args has.
func clone3(args *cloneArgs, size, run uintptr, b *birth) (pid uintptr)

// fork makes a child. The calling thread must be locked. The pipe over of what it returns
// ends when the child is its program, or has failed, as b says then.
func fork(c Cmd, files []int) (pid int, b *birth, err error) {
	if b, err = newBirth(c, files); err != nil {
		return 0, nil, err
	}
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return 0, nil, err
	}
	b.over, b.alive, b.mask, b.until = ends[0], ends[1], ^uint64(0), time.Now().Add(c.Most)
	end := unsafe.Pointer(uintptr(unsafe.Pointer(&b.stack[childStack-1])) &^ 15)
	child := inChild
	run := **(**uintptr)(unsafe.Pointer(&child))
	flags := uintptr(unix.CLONE_VM)
	if debugged.Load() {
		flags |= unix.CLONE_VFORK
	}
	syscall.ForkLock.Lock()
	setMask(&b.mask, &b.mask) // a signal in the child would run this process's handlers
	own := b.mask
	b.mask &^= held
	n := -int(syscall.ENOSYS)
	if c.Group != nil { // Linux 5.7
		low := uint64(uintptr(unsafe.Pointer(&b.stack[0])))
		b.into = cloneArgs{flags: uint64(flags) | unix.CLONE_INTO_CGROUP, exitSignal: uint64(syscall.SIGCHLD),
			stack: low, stackSize: uint64(uintptr(end)) - low, cgroup: uint64(c.Group.Fd())}
		n = int(clone3(&b.into, unsafe.Sizeof(b.into), run, b))
	}
	if n < 0 { // no control group was requested, the kernel is too old, or a seccomp filter forbids clone3
		n = int(clone(flags|uintptr(syscall.SIGCHLD), end, run, b))
	}
	setMask(&own, nil)
	syscall.ForkLock.Unlock()
	unix.Close(ends[1])
	if n < 0 {
		unix.Close(ends[0])
		return 0, nil, syscall.Errno(-n)
	}
	return n, b, nil
}

// setMask changes which signals the calling thread gets.
//
//go:norace
//go:nosplit
func setMask(to, old *uint64) {
	call(syscall.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(to)), uintptr(unsafe.Pointer(old)),
		unsafe.Sizeof(*to))
}

// call makes a system call; below 0 is -errno.
//
//go:norace
//go:nosplit
func call(number, a, b, c, d uintptr) int {
	r, _, e := syscall.RawSyscall6(number, a, b, c, d, 0, 0)
	if e != 0 {
		return -int(e)
	}
	return int(r)
}

// inChild makes the program of a child. It may do nothing that Go's runtime has a part
// in: no call but a system call, no growing stack, no memory.
//
//go:norace
//go:nosplit
func inChild(b *birth) {
	r := b.prepare()
	if r >= 0 {
		r = b.arrange()
	}
	for i := range b.limits {
		l := &b.limits[i]
		call(syscall.SYS_PRLIMIT64, 0, uintptr(l.Resource), uintptr(unsafe.Pointer(&l.Soft)), 0)
	}
	if r >= 0 && b.terminal {
		r = call(syscall.SYS_IOCTL, 0, unix.TIOCSCTTY, 0, 0)
	}
	if r >= 0 && b.hold {
		b.step = tracing
		r = call(syscall.SYS_PTRACE, unix.PTRACE_TRACEME, 0, 0, 0)
	}
	if r >= 0 && b.dir != nil {
		b.step = entering
		r = call(syscall.SYS_CHDIR, uintptr(unsafe.Pointer(b.dir)), 0, 0, 0)
	}
	if r >= 0 {
		b.step = executing
		setMask(&b.mask, nil)
		r = call(syscall.SYS_EXECVE, uintptr(unsafe.Pointer(b.path)), uintptr(unsafe.Pointer(&b.argv[0])),
			uintptr(unsafe.Pointer(&b.env[0])), 0)
	}
	b.errno = -r
	for {
		call(syscall.SYS_EXIT, notBorn, 0, 0, 0)
	}
}

//go:norace
//go:nosplit
func (b *birth) prepare() (r int) {
	for s := uintptr(1); s <= signals; s++ {
		call(syscall.SYS_RT_SIGACTION, s, 0, uintptr(unsafe.Pointer(&b.old)), 8)
		if b.old.handler > 1 { // neither the default nor ignored: those pass to a program
			call(syscall.SYS_RT_SIGACTION, s, uintptr(unsafe.Pointer(&b.none)), 0, 8)
		}
	}
	if b.session {
		r = call(syscall.SYS_SETSID, 0, 0, 0, 0)
	} else if b.group {
		r = call(syscall.SYS_SETPGID, 0, 0, 0, 0)
	}
	if b.parent != 0 && r >= 0 {
		r = call(syscall.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0, 0)
		if call(syscall.SYS_GETPPID, 0, 0, 0, 0) != b.parent {
			r = -int(syscall.ESRCH) // it had died before
		}
	}
	if r < 0 {
		return r
	}
	call(syscall.SYS_PRCTL, unix.PR_SET_TIMERSLACK, slack, 0, 0)
	call(syscall.SYS_PRLIMIT64, 0, syscall.RLIMIT_NOFILE, uintptr(unsafe.Pointer(&b.open)), 0)
	return 0
}

// arrange puts the descriptors where the program wants them, and closes all others: a
// child that hangs would hold what is at their other ends. Before Linux 5.9 it does.
//
//go:norace
//go:nosplit
func (b *birth) arrange() (r int) {
	most := max(len(b.files), 3)
	if b.alive < most { // away with it
		if b.alive = call(syscall.SYS_FCNTL, uintptr(b.alive), unix.F_DUPFD_CLOEXEC, uintptr(most), 0); b.alive < 0 {
			return b.alive
		}
	}
	for i, f := range b.files { // and with what lies where another is to lie
		if f >= 0 && f < i {
			if r = call(syscall.SYS_FCNTL, uintptr(f), unix.F_DUPFD_CLOEXEC, uintptr(most), 0); r < 0 {
				return r
			}
			b.files[i] = r
		}
	}
	for i, f := range b.files {
		switch f {
		case -1:
			call(syscall.SYS_CLOSE, uintptr(i), 0, 0, 0)
		case i:
			r = call(syscall.SYS_FCNTL, uintptr(i), unix.F_SETFD, 0, 0)
		default:
			r = call(syscall.SYS_DUP3, uintptr(f), uintptr(i), 0, 0)
		}
		if r < 0 {
			return r
		}
	}
	b.closeFrom(len(b.files), b.alive-1)
	b.closeFrom(b.alive+1, math.MaxInt32)
	return 0
}

//go:norace
//go:nosplit
func (b *birth) closeFrom(first, last int) {
	if first <= last {
		call(unix.SYS_CLOSE_RANGE, uintptr(first), uintptr(last), 0, 0)
	}
}

// result waits until the child is its program, or cannot become it, or the time is up.
func (b *birth) result(c Cmd) error {
	defer unix.Close(b.over)
	defer runtime.KeepAlive(b)
	var err error
	if !b.ends(c) {
		hung.Lock()
		hung.births = append(hung.births, b)
		hung.Unlock()
		err = Hung(c.Most)
	} else if b.errno != 0 {
		err = syscall.Errno(b.errno)
	} else {
		return nil
	}
	switch b.step {
	case tracing:
		return fmt.Errorf("it cannot be held before it runs: %w", os.NewSyscallError("ptrace", err))
	case entering:
		return &os.PathError{Op: "chdir", Path: c.Dir, Err: err}
	case executing:
		return &os.PathError{Op: "exec", Path: c.Path, Err: err}
	}
	return os.NewSyscallError("fork", err)
}

// ends waits until the pipe ends, or the child's time is up, if it has any.
func (b *birth) ends(c Cmd) bool {
	if c.Most == 0 {
		return ends(b.over, -1)
	}
	return ends(b.over, max(0, time.Until(b.until)))
}

// ends waits for the end of a pipe; most is below 0 if that may take as long as it likes.
func ends(pipe int, most time.Duration) bool {
	at := []unix.PollFd{{Fd: int32(pipe)}}
	for until := time.Now().Add(most); ; {
		left := -1
		if most >= 0 {
			left = int(max(0, time.Until(until)).Milliseconds()) + 1
		}
		switch n, err := unix.Poll(at, left); {
		case n > 0:
			return true
		case err == nil:
			return false
		}
	}
}

// lookAgain is how often a traced child that is about to become its program is looked at: a signal
// may have stopped it.
const lookAgain = 20 * time.Millisecond

// awaitProgram waits until a child that is to be held is its program, or cannot become it, or the
// time is up. It returns the signal at which the program has stopped, if it has seen that.
func (b *birth) awaitProgram(c Cmd, pid int) (s syscall.Signal) {
	for s == 0 && !ends(b.over, lookAgain) && (c.Most == 0 || time.Now().Before(b.until)) {
		s = b.look(pid)
	}
	return s
}

// look lets a child go on that a signal has stopped on its way to its program. It may have arrived
// since anybody looked: then the signal is its program's, and is returned.
func (b *birth) look(pid int) syscall.Signal {
	s, stopped := stopSignal(pid, unix.WNOHANG)
	if !stopped {
		return 0
	}
	if ends(b.over, 0) {
		return s
	}
	_ = unix.PtraceCont(pid, int(s))
	return 0
}
