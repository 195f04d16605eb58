package proc

import (
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// StopDescendants stops every process below this one, spared subtrees aside, in
// rounds, until a round finds no new one: a process that has been sent SIGSTOP
// forks no more.
func StopDescendants(most time.Duration, spare ...int) {
	signalDescendants(most, syscall.SIGSTOP, func(int, bool) bool { return true }, spare)
}

// ContinueDescendants undoes StopDescendants. The first round also reaches those
// that have not stopped yet; later ones only what was stopped and not seen before,
// since a program that runs forks on.
func ContinueDescendants(most time.Duration, spare ...int) {
	signalDescendants(most, syscall.SIGCONT, func(pid int, first bool) bool { return first || state(pid) == 'T' },
		spare)
}

// signalDescendants sends a signal once to each process below this one that wants
// it, until a round finds none or the time is up.
func signalDescendants(most time.Duration, s syscall.Signal, wants func(pid int, first bool) bool, spare []int) {
	if childless() {
		return
	}
	self, sent := os.Getpid(), map[int]bool{}
	for begin := time.Now(); time.Since(begin) < most; {
		first, found := len(sent) == 0, false
		for _, pid := range Descendants(self, spare...) {
			if !sent[pid] && wants(pid, first) {
				sent[pid], found = true, true
				_ = syscall.Kill(pid, s)
			}
		}
		if !found {
			return
		}
	}
}

// GroupOrphaned reports whether nobody could continue this process's group if a
// terminal stopped it, which is why the kernel ignores stop signals from terminals then: no
// member has a parent in the same session but outside of the group (setpgid(2)).
// Of the members only this process and its ancestors are looked at.
func GroupOrphaned() bool {
	session, err := unix.Getsid(0)
	if err != nil {
		return false
	}
	group := syscall.Getpgrp()
	for pid := syscall.Getppid(); pid > 0; pid = parent(pid) {
		s, err := unix.Getsid(pid)
		if err != nil || s != session {
			return true
		}
		if g, err := syscall.Getpgid(pid); err != nil || g != group {
			return false
		}
	}
	return true
}

// parent is the parent of a process; 0: there is none that can be seen.
func parent(pid int) int {
	_, words := stat(pid)
	if len(words) < 2 {
		return 0
	}
	above, _ := strconv.Atoi(words[1])
	return above
}

// GroupInFront reports whether this process's terminal is its own group's at present.
func GroupInFront() bool {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return false
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}
