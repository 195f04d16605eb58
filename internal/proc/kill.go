package proc

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ibrun/internal/pseudo"
)

// mostStat bounds what is read of a process; the name in it has 64 bytes at most.
const mostStat = 4 << 10

// children returns the processes whose parent is pid. Zombies are left out:
// nothing of them runs.
func children(pid int) []int {
	var children []int
	dir := "/proc/" + strconv.Itoa(pid) + "/task/"
	threads, _ := os.ReadDir(dir)
	known := len(threads) == 0 // whether this kernel has the files
	for _, thread := range threads {
		b, err := pseudo.Read(dir+thread.Name()+"/children", mostChildren)
		if err != nil {
			continue
		}
		known = true
		for _, word := range strings.Fields(string(b)) {
			if child, err := strconv.Atoi(word); err == nil && !zombie(child) {
				children = append(children, child)
			}
		}
	}
	if !known {
		return childrenByParent(pid)
	}
	return children
}

// mostChildren bounds a list of children: a million have 8 MB.
const mostChildren = 16 << 20

// childrenByParent is children for kernels without CONFIG_PROC_CHILDREN.
func childrenByParent(pid int) []int {
	var children []int
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, f := range stats {
		child, err := strconv.Atoi(filepath.Base(filepath.Dir(f)))
		if err != nil {
			continue
		}
		if _, words := stat(child); len(words) >= 2 && words[0] != "Z" && words[1] == strconv.Itoa(pid) {
			children = append(children, child)
		}
	}
	return children
}

// Look tells a process's name and the letter of its state, proc(5); 0 if there is no process.
func Look(pid int) (name string, state byte) {
	name, words := stat(pid)
	if len(words) == 0 {
		return "", 0
	}
	return name, words[0][0]
}

// stat is what /proc/PID/stat says of a process: its name, which, in parentheses, may
// hold anything, and behind it its state, its parent, and more, proc(5). No words:
// there is no such process.
func stat(pid int) (name string, words []string) {
	b, err := pseudo.Read("/proc/"+strconv.Itoa(pid)+"/stat", mostStat)
	begin, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if err != nil || begin < 0 || end < begin {
		return "", nil
	}
	return string(b[begin+1 : end]), strings.Fields(string(b[end+1:]))
}

func state(pid int) byte {
	_, s := Look(pid)
	return s
}

func zombie(pid int) bool {
	s := state(pid)
	return s == 'Z' || s == 'X' || s == 0
}

// Descendants returns every live process below pid, parents before children.
// The subtrees of the processes in spare, and they themselves, are left out.
func Descendants(pid int, spare ...int) []int {
	skip := map[int]bool{}
	for _, s := range spare {
		skip[s] = true
	}
	todo := []int{pid}
	var all []int
	for len(todo) > 0 {
		for _, child := range children(todo[0]) {
			if !skip[child] {
				skip[child] = true
				todo, all = append(todo, child), append(all, child)
			}
		}
		todo = todo[1:]
	}
	return all
}

// childless asks the kernel whether this process has any child, dead or alive.
// With orphans coming to it, one without children has no descendants, and the
// walk through /proc, which costs more than all else at an agent's end, is spared.
func childless() bool {
	return unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOWAIT|unix.WNOHANG, nil) == unix.ECHILD
}

// killRound is the time between two looks at what is left.
const killRound = 2 * time.Millisecond

// KillDescendants kills every process below this one, spared subtrees aside,
// in rounds, until a round finds none: what is forked in between is found by
// the next. It returns those that live on after the time is up, which are in
// uninterruptible sleep or belong to somebody else.
func KillDescendants(most time.Duration, spare ...int) (left []int) {
	if childless() {
		return nil
	}
	self := os.Getpid()
	for begin := time.Now(); ; time.Sleep(killRound) {
		left = Descendants(self, spare...)
		if len(left) == 0 || time.Since(begin) > most {
			return left
		}
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}
