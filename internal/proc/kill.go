package proc

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// mostStat bounds what is read of a process; the name in it has 64 bytes at most.
const mostStat = 4 << 10

// offspring are the children of a process.
type offspring struct {
	live    []int
	zombies []int // that nobody has reaped yet
	whole   bool  // the lists lack none that was there from beginning to end
}

// all reports whether no child is missing, if the first thread of the parent lives. Orphans, which
// come to the end of the first thread's list, may find it read already; but then a parent of theirs
// was listed, and has ended.
func (o offspring) all() bool { return o.whole && len(o.zombies) == 0 }

// children returns the children of pid. The kernel's lists leave a process out when an earlier one
// is removed while they are read (proc(5)), so a list is whole if all that it has are still there.
// Orphans come to the end of the first thread's list, so that list is read last.
func children(pid int) (o offspring) {
	dir := "/proc/" + strconv.Itoa(pid) + "/task/"
	var threads []string
	entries, err := os.ReadDir(dir)
	o.whole = err == nil
	for _, e := range entries {
		if e.Name() != strconv.Itoa(pid) {
			threads = append(threads, e.Name())
		}
	}
	known := false // whether this kernel has the files
	for _, thread := range append(threads, strconv.Itoa(pid)) {
		b, err := Read(dir+thread+"/children", mostChildren)
		if err != nil { // the thread has ended, say
			o.whole = false
			continue
		}
		known = true
		for _, word := range strings.Fields(string(b)) {
			child, err := strconv.Atoi(word)
			words := Stat(child)
			if err != nil || len(words) < 2 || words[1] != strconv.Itoa(pid) {
				o.whole = false // it was removed
			}
			switch {
			case !over(words):
				o.live = append(o.live, child)
			case len(words) > 0:
				o.zombies = append(o.zombies, child)
			}
		}
	}
	if !known && len(entries) > 0 {
		return childrenByParent(pid)
	}
	return o
}

// mostChildren bounds a list of children: a million have 8 MB.
const mostChildren = 16 << 20

// childrenByParent is children for kernels without CONFIG_PROC_CHILDREN. It cannot know
// of a child that was reaped between the listing and the look at it, so all says less here.
func childrenByParent(pid int) (o offspring) {
	o.whole = true
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, f := range stats {
		child, err := strconv.Atoi(filepath.Base(filepath.Dir(f)))
		if err != nil || parent(child) != pid {
			continue
		}
		if dead(child) {
			o.zombies = append(o.zombies, child)
		} else {
			o.live = append(o.live, child)
		}
	}
	return o
}

// Children returns the live children of a process. Some may be missing if /proc cannot be read.
func Children(pid int) []int { return children(pid).live }

// Look returns the name of a process and the letter of its state (proc(5)). The state is 0 if the process has ended.
func Look(pid int) (name string, state byte) {
	name, words := readStat(pid, "")
	if over(words) {
		return "", 0
	}
	return name, words[0][0]
}

// Stat returns the fields of /proc/PID/stat behind the name: state, parent and so on (proc(5)). It returns none if
// there is no such process.
func Stat(pid int) []string {
	_, words := readStat(pid, "")
	return words
}

// readStat returns the name of a process and the fields behind it in /proc/PID/stat. The name is in parentheses there
// and may contain any character. If thread is not empty, it is "/task/" and a number, and the file is that of the
// thread.
func readStat(pid int, thread string) (name string, words []string) {
	b, err := Read("/proc/"+strconv.Itoa(pid)+thread+"/stat", mostStat)
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

// Of stat's words: the flags of the thread. The kernel sets one of them when the thread begins to
// end (include/linux/sched.h, PF_EXITING), and closes files after that (kernel/exit.c, do_exit).
const (
	statFlags   = 6
	flagExiting = 0x4
)

// exiting reports whether each thread of a process, which has not been reaped, ends or has ended,
// so that the kernel may have closed its files. It is not known of one that this user cannot see.
func exiting(pid int) bool {
	flags := func(thread string) (flags uint64, known bool) {
		_, words := readStat(pid, "/task/"+thread)
		if len(words) <= statFlags {
			return 0, false
		}
		flags, err := strconv.ParseUint(words[statFlags], 10, 32)
		return flags, err == nil
	}
	if first, known := flags(strconv.Itoa(pid)); !known || first&flagExiting == 0 {
		return false
	}
	threads, err := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/task")
	return err == nil && !slices.ContainsFunc(threads, func(e os.DirEntry) bool {
		thread, known := flags(e.Name())
		return known && thread&flagExiting == 0 // one that is not known has ended
	})
}

func dead(pid int) bool { return over(Stat(pid)) }

func state(pid int) byte {
	_, s := Look(pid)
	return s
}

// Descendants returns every live process below pid, parents before children.
// The subtrees of the processes in spare, and they themselves, are left out.
func Descendants(pid int, spare ...int) []int { return walk(pid, spare).found }

// family is what a walk finds below a process.
type family struct {
	found   []int        // live, parents before children
	zombies []int        // children of pid and of those
	parents map[int]bool // those of found that have live children
	all     bool         // the process's own children are all known
	whole   bool         // so are those of all others, if none has ended meanwhile
}

// walk looks below pid, spared subtrees aside. If all of pid's own children are known, and none is
// found, nothing but the spared lives below pid: who lives is below a live child.
func walk(pid int, spare []int) family {
	skip := map[int]bool{}
	for _, s := range spare {
		skip[s] = true
	}
	f := family{parents: map[int]bool{}, whole: true}
	add := func(parent int) offspring {
		below := children(parent)
		f.whole, f.zombies = f.whole && below.whole, append(f.zombies, below.zombies...)
		for _, child := range below.live {
			if !skip[child] {
				skip[child], f.parents[parent] = true, true
				f.found = append(f.found, child)
			}
		}
		return below
	}
	f.all = add(pid).all()
	for i := 0; i < len(f.found); i++ {
		add(f.found[i])
	}
	return f
}

// childless asks the kernel whether this process has any child, dead or alive.
// With orphans coming to it, one without children has no descendants, and the
// walk through /proc, which costs more than all else at an agent's end, is spared.
func childless() bool {
	return unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOWAIT|unix.WNOHANG, nil) == unix.ECHILD
}

// round is the time between two looks at what is left.
const round = 2 * time.Millisecond

// KillDescendants kills every process below this one, spared subtrees aside, in
// rounds, until a round that saw all children finds none: what is forked in between
// is found by the next. It returns those that live on after the time is up, and at
// least two rounds: they are in uninterruptible sleep, belong to somebody else, or
// have not had a CPU since.
func KillDescendants(most time.Duration, spare ...int) (left []int) {
	waiting.start.Do(startReaping) // a round that meets the dead has not seen all
	waiting.Lock()
	waiting.over = false // whoever has started them
	waiting.Unlock()
	reapAll()
	self := os.Getpid()
	begin, late := time.Now(), false
	for !childless() {
		below := walk(self, spare)
		if len(below.found) == 0 && below.all {
			return nil
		}
		for _, pid := range below.found {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if late {
			return below.found
		}
		time.Sleep(round)
		late = time.Since(begin) > most
	}
	return nil
}
