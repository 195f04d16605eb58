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

// children returns the live processes whose parent is pid. They are all, as long as pid's
// first thread lives, if none of those that were listed had ended: the kernel's lists leave
// a process out when an earlier one is removed while they are read (proc(5)), and orphans,
// which come to the end of the first thread's list, may find it read already. So that list
// is read last.
func children(pid int) (live []int, all bool) {
	dir := "/proc/" + strconv.Itoa(pid) + "/task/"
	var threads []string
	entries, err := os.ReadDir(dir)
	all = err == nil
	for _, e := range entries {
		if e.Name() != strconv.Itoa(pid) {
			threads = append(threads, e.Name())
		}
	}
	known := false // whether this kernel has the files
	for _, thread := range append(threads, strconv.Itoa(pid)) {
		b, err := pseudo.Read(dir+thread+"/children", mostChildren)
		if err != nil { // the thread has ended, say
			all = false
			continue
		}
		known = true
		for _, word := range strings.Fields(string(b)) {
			if child, err := strconv.Atoi(word); err == nil && !dead(child) {
				live = append(live, child)
			} else {
				all = false
			}
		}
	}
	if !known && len(entries) > 0 {
		return childrenByParent(pid)
	}
	return live, all
}

// mostChildren bounds a list of children: a million have 8 MB.
const mostChildren = 16 << 20

// childrenByParent is children for kernels without CONFIG_PROC_CHILDREN. It cannot know
// of a child that was reaped between the listing and the look at it, so all says less here.
func childrenByParent(pid int) (live []int, all bool) {
	all = true
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, f := range stats {
		child, err := strconv.Atoi(filepath.Base(filepath.Dir(f)))
		if err != nil || parent(child) != pid {
			continue
		}
		if dead(child) {
			all = false
		} else {
			live = append(live, child)
		}
	}
	return live, all
}

// Look tells a live process's name and the letter of its state, proc(5); 0 if it has ended.
func Look(pid int) (name string, state byte) {
	name, words := stat(pid)
	if over(words) {
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

// Of stat's words: the number of threads, the zombie itself being one.
const statThreads = 17

// over reports whether nothing of a process runs any more: there is none, or it is a
// zombie. One whose first thread alone has ended, pthread_exit(3), is called a zombie, too.
func over(words []string) bool {
	if len(words) == 0 || words[0] == "X" {
		return true
	}
	return words[0] == "Z" && (len(words) <= statThreads || words[statThreads] == "1")
}

func dead(pid int) bool {
	_, words := stat(pid)
	return over(words)
}

func state(pid int) byte {
	_, s := Look(pid)
	return s
}

// Descendants returns every live process below pid, parents before children.
// The subtrees of the processes in spare, and they themselves, are left out.
func Descendants(pid int, spare ...int) []int {
	found, _ := descendants(pid, spare)
	return found
}

// descendants also tells whether pid's own children are all known. If they are, and none is
// found, nothing but the spared lives below pid: who lives is below a live child.
func descendants(pid int, spare []int) (found []int, all bool) {
	skip := map[int]bool{}
	for _, s := range spare {
		skip[s] = true
	}
	add := func(parent int) (all bool) {
		below, all := children(parent)
		for _, child := range below {
			if !skip[child] {
				skip[child] = true
				found = append(found, child)
			}
		}
		return all
	}
	all = add(pid)
	for i := 0; i < len(found); i++ {
		add(found[i])
	}
	return found, all
}

// childless asks the kernel whether this process has any child, dead or alive.
// With orphans coming to it, one without children has no descendants, and the
// walk through /proc, which costs more than all else at an agent's end, is spared.
func childless() bool {
	return unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOWAIT|unix.WNOHANG, nil) == unix.ECHILD
}

// killRound is the time between two looks at what is left.
const killRound = 2 * time.Millisecond

// KillDescendants kills every process below this one, spared subtrees aside, in
// rounds, until a round that saw all children finds none: what is forked in between
// is found by the next. It returns those that live on after the time is up, and at
// least two rounds: they are in uninterruptible sleep, belong to somebody else, or
// have not had a CPU since.
func KillDescendants(most time.Duration, spare ...int) (left []int) {
	waiting.start.Do(startReaping) // a round that meets the dead has not seen all
	self := os.Getpid()
	begin, late := time.Now(), false
	for !childless() {
		found, all := descendants(self, spare)
		if len(found) == 0 && all {
			return nil
		}
		for _, pid := range found {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if late {
			return found
		}
		time.Sleep(killRound)
		late = time.Since(begin) > most
	}
	return nil
}
