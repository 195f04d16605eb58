package proc

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// StopDescendants stops every process below this one, spared subtrees aside, in rounds, until some
// rounds have found the same processes, all of them stopped or zombies. A process that this one may
// not stop is not waited for. Nor is any after most, as one that sleeps in the kernel stops when
// the kernel lets it.
//
// Stopped processes neither fork nor reap. So what runs after the first of these rounds is on a
// list that the second reads, alive or dead, or its parent, which ignores the ends of its children,
// has forgotten it; then its own children, which come to this process, are on the third round's.
func StopDescendants(most time.Duration, spare ...int) {
	if childless() {
		return
	}
	self, same := os.Getpid(), 0
	var before family // what the last round found, if same > 0
	for begin := time.Now(); same < quietRounds && time.Since(begin) < most; {
		below := walk(self, spare)
		runs := !below.whole
		for _, pid := range below.found {
			if !stopped(pid, below.parents[pid]) && syscall.Kill(pid, syscall.SIGSTOP) != syscall.EPERM {
				runs = true
			}
		}
		switch {
		case runs:
			same = 0
			time.Sleep(round)
		case same > 0 && slices.Equal(before.found, below.found) && slices.Equal(before.zombies, below.zombies):
			same++
		default:
			before, same = below, 1
		}
	}
}

// quietRounds is how many rounds must find the same before StopDescendants ends.
const quietRounds = 3

// stopped reports whether no thread of a process runs, or will before SIGCONT. A thread in vfork(2)
// sleeps, D, until its child has become another program; forks tells that there is a child.
func stopped(pid int, forks bool) bool {
	threads, err := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/task")
	for _, thread := range threads {
		_, words := readStat(pid, "/task/"+thread.Name())
		if len(words) == 0 || !strings.Contains("TtZX", words[0]) && !(words[0] == "D" && forks) {
			return false
		}
	}
	return err == nil
}

// ContinueDescendants undoes StopDescendants. The first round also reaches those
// that have not stopped yet; later ones only what was stopped and not seen before,
// since a program that runs forks on.
func ContinueDescendants(most time.Duration, spare ...int) {
	if childless() {
		return
	}
	self, sent := os.Getpid(), map[int]bool{}
	for begin := time.Now(); time.Since(begin) < most; {
		first, found := len(sent) == 0, false
		for _, pid := range Descendants(self, spare...) {
			if !sent[pid] && (first || state(pid) == 'T') {
				sent[pid], found = true, true
				_ = syscall.Kill(pid, syscall.SIGCONT)
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
	words := Stat(pid)
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
