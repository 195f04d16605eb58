package proc

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A process in the background of its terminal that reads, or writes or changes modes where
// that is refused, gets SIGTTIN or SIGTTOU, with its whole group, and the kernel begins the
// call again (tty_check_change in drivers/tty/tty_jobctrl.c). The default action stops the
// process there. One that catches the signal is signalled again as soon as its handler is
// over: it spins, and the thread that takes the signals gets no further. So the signals are
// blocked in such calls; it is found out beforehand whether they would come; and then one is
// raised.

// consolePoll is how often a process looks whether it has been brought to the
// front of its terminal, or put into the background.
const consolePoll = 500 * time.Millisecond

// Stoppable reports whether a terminal may stop this process: somebody could continue
// it, and whoever started it has not had SIGTSTP ignored.
func Stoppable() bool { return !signal.Ignored(syscall.SIGTSTP) && !GroupOrphaned() }

// InBackground reports whether f is the controlling terminal of this process while another process group is in its
// foreground.
func InBackground(f *os.File) bool {
	group, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
	return err == nil && group != unix.Getpgrp()
}

// refuses reports whether f is a terminal that stops this process if it writes now: the process is in the background
// and the terminal has TOSTOP set (termios(3)).
func refuses(f *os.File) bool {
	if !InBackground(f) {
		return false
	}
	modes, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil && modes.Lflag&unix.TOSTOP != 0 && Stoppable()
}

// raise does to this process's group once what its terminal would.
func raise(s syscall.Signal) { _ = syscall.Kill(0, s) }

// masked runs f on a thread that takes a signal, or does not.
func masked(how int, s syscall.Signal, f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var set, old unix.Sigset_t
	set.Val[0] = 1 << (s - 1)
	if err := unix.PthreadSigmask(how, &set, &old); err == nil {
		defer func() { _ = unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil) }() // it was valid
	}
	f()
}

// ConsoleWriter writes to a file, which stays the caller's. If that is this process's terminal, and
// refuses output of the background (stty tostop), SIGTTOU is raised, and the text is written all
// the same.
func ConsoleWriter(f *os.File) io.Writer {
	if !IsTerminal(f) {
		return f
	}
	return consoleWriter{f}
}

type consoleWriter struct{ file *os.File }

func (w consoleWriter) Write(b []byte) (n int, err error) {
	if refuses(w.file) {
		raise(syscall.SIGTTOU)
	}
	masked(unix.SIG_BLOCK, syscall.SIGTTOU, func() { n, err = w.file.Write(b) })
	return n, err
}

// InTurn writes to w when a file is no terminal that refuses it. It raises SIGTTOU, and again now
// and then, and waits. It is the outermost of the writers to a terminal, lest one waits with a lock
// that somebody needs who has to act upon the signal.
func InTurn(f *os.File, w io.Writer) io.Writer {
	if !IsTerminal(f) {
		return w
	}
	return turnWriter{f, w}
}

type turnWriter struct {
	file *os.File
	w    io.Writer
}

func (t turnWriter) Write(b []byte) (int, error) {
	for refuses(t.file) {
		raise(syscall.SIGTTOU)
		time.Sleep(consolePoll)
	}
	return t.w.Write(b)
}

// IsTerminal reports whether a file is a terminal.
func IsTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// ReadConsole reads from a file. If that is this process's terminal, it first waits, for as
// long as the process is in the background, and raises no signal: a job that only waits for
// input goes on there.
func ReadConsole(f *os.File, b []byte) (n int, err error) {
	for {
		if !awaitTyped(int(f.Fd())) {
			return f.Read(b)
		}
		masked(unix.SIG_BLOCK, syscall.SIGTTIN, func() { n, err = f.Read(b) })
		if !errors.Is(err, syscall.EIO) || !InBackground(f) {
			return n, err
		}
	}
}

// awaitTyped waits until the terminal of this process has something to read for it. It does
// not wait for what is no such terminal, and reports that.
func awaitTyped(fd int) (terminal bool) {
	ready := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for typed := false; ; {
		group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
		switch front := group == unix.Getpgrp(); {
		case err != nil:
			return false
		case front && typed:
			return true
		case front:
			n, _ := unix.Poll(ready, int(consolePoll.Milliseconds()))
			typed = n > 0
		default:
			typed = false
			time.Sleep(consolePoll)
		}
	}
}

// SetConsole changes the modes of a terminal by the request how, TCSETS or TCSETSW (ioctl_tty(2)), and reports whether
// that has succeeded. It changes nothing while this process is in the background.
func SetConsole(f *os.File, how uint, modes *unix.Termios) bool {
	if InBackground(f) {
		return false
	}
	var err error
	masked(unix.SIG_BLOCK, syscall.SIGTTOU, func() { err = unix.IoctlSetTermios(int(f.Fd()), how, modes) })
	return err == nil
}

// Suspend stops this process as SIGTSTP does by default, though it catches it, and returns when it
// goes on. Where nobody could continue it the kernel sees to it that it is not stopped, and Suspend
// reports that.
func Suspend() (stopped bool) {
	caught, err := setAction(syscall.SIGTSTP, nil)
	if err != nil {
		return false
	}
	byDefault := caught
	byDefault[0] = 0 // SIG_DFL; os/signal.Reset leaves the runtime's handler, which drops the signal
	if _, err = setAction(syscall.SIGTSTP, &byDefault); err != nil {
		return false
	}
	// The thread that raises it takes it before it goes on.
	masked(unix.SIG_UNBLOCK, syscall.SIGTSTP, func() { err = unix.Tgkill(os.Getpid(), unix.Gettid(), syscall.SIGTSTP) })
	_, again := setAction(syscall.SIGTSTP, &caught)
	return errors.Join(err, again) == nil && Stoppable()
}

// rawAction is the kernel's struct sigaction, or longer. The handler comes first everywhere but
// on MIPS.
type rawAction [8]uintptr

// setAction changes what a signal does, and returns what it did; nil changes nothing.
func setAction(s syscall.Signal, to *rawAction) (was rawAction, err error) {
	const setSize = 8 // bytes of the kernel's sigset_t
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION,
		uintptr(s), uintptr(unsafe.Pointer(to)), uintptr(unsafe.Pointer(&was)), setSize, 0, 0)
	if errno != 0 {
		return was, errno
	}
	return was, nil
}
