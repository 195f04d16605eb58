package proc

import (
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A process that is held is stopped by SIGSTOP before the first instruction of its program, so that
// a debugger finds nothing run yet and the right symbols. The child asks to be traced, the kernel
// stops it when exec is done, and the thread that has forked lets go of it with SIGSTOP. SIGCONT
// lets it run.

// hold waits until a child has become its program, and leaves it stopped. The caller has forked it,
// on this thread, and keeps the reaping goroutine from taking what the kernel says of it.
func (c *Cmd) hold(pid int, b *birth) error {
	s := b.awaitProgram(*c, pid)
	if err := b.result(*c); err != nil {
		return err
	}
	for s != syscall.SIGTRAP {
		if s != 0 {
			_ = unix.PtraceCont(pid, int(s))
		}
		var ok bool
		if s, ok = stopSignal(pid, 0); !ok {
			return nil // it was killed: its end says so
		}
	}
	const stop = uintptr(syscall.SIGSTOP)
	_, _, errno := unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_DETACH, uintptr(pid), 0, stop, 0, 0)
	if errno != 0 {
		return fmt.Errorf("it cannot be held: %w", os.NewSyscallError("ptrace", errno))
	}
	return nil
}

// statusAt is where waitid(2) puts si_status.
const statusAt = 24

// stopSignal is the signal at which a traced child has stopped; false: it has not, or has ended.
// Its end is left to the reaping goroutine.
func stopSignal(pid, options int) (s syscall.Signal, ok bool) {
	var info unix.Siginfo
	for {
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT|options, nil)
		if err == nil {
			break
		}
		if err != unix.EINTR {
			return 0, false
		}
	}
	if info.Code != cldTrapped && info.Code != cldStopped {
		return 0, false
	}
	number := *(*int32)(unsafe.Add(unsafe.Pointer(&info), statusAt))
	_ = unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WNOHANG, nil)
	return syscall.Signal(number & 0x7f), true
}

// CLD_TRAPPED and CLD_STOPPED of sigaction(2).
const (
	cldTrapped = 4
	cldStopped = 5
)
