package proc

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Mark is how processes of one job on one node are known: by variables of their environment,
// which they inherit whatever they fork and whichever session they enter.
type Mark struct {
	Variables []string // NAME=VALUE; a process that is meant has all of them
	// Keeper is the first argument of a process that ends what is below it by itself.
	Keeper string
}

// mostEnviron bounds what is read of an environment: execve(2) takes 6 MiB with the usual stack.
const mostEnviron = 8 << 20

// markRound is the time between two looks.
const markRound = 10 * time.Millisecond

// has reports whether a process of this user bears the mark. Those of others cannot be read.
func (m Mark) has(pid int) bool {
	environ, err := Read("/proc/"+strconv.Itoa(pid)+"/environ", mostEnviron)
	if err != nil || len(environ) == 0 {
		return false
	}
	entries := bytes.Split(environ, []byte{0})
	return !slices.ContainsFunc(m.Variables, func(v string) bool {
		return !slices.ContainsFunc(entries, func(e []byte) bool { return string(e) == v })
	})
}

// find returns the live processes that bear the mark, but for this one.
func (m Mark) find() (found []int, err error) {
	entries, err := os.ReadDir("/proc")
	for _, e := range entries {
		pid, wrong := strconv.Atoi(e.Name())
		if wrong == nil && pid != os.Getpid() && m.has(pid) && !dead(pid) {
			found = append(found, pid)
		}
	}
	return found, err
}

// kept reports whether a process is below a keeper.
func (m Mark) kept(pid int) bool {
	for pid = parent(pid); pid > 1; pid = parent(pid) {
		argv, _ := Read("/proc/"+strconv.Itoa(pid)+"/cmdline", mostStat)
		if words := bytes.Split(argv, []byte{0}); len(words) > 1 && string(words[1]) == m.Keeper {
			return true
		}
	}
	return false
}

// kill kills a process if it still bears the mark, and not another one that has its number by now.
func (m Mark) kill(pid int) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ENOSYS) { // before Linux 5.3
		return m.has(pid) && unix.Kill(pid, unix.SIGKILL) == nil
	}
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return m.has(pid) && unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) == nil
}

// KillMarked kills all processes that bear a mark, in rounds, until two in a row find none. What
// is below a keeper gets the grace to end in order. It returns how many processes it killed, and
// those that live on when most has passed after the grace. The error says why it cannot know.
func KillMarked(m Mark, grace, most time.Duration) (killed int, left []int, err error) {
	hit := map[int]bool{}
	begin, empty := time.Now(), 0
	for empty < 2 {
		found, err := m.find()
		if err != nil {
			return len(hit), nil, err
		}
		passed := time.Since(begin)
		for _, pid := range found {
			if (passed >= grace || !m.kept(pid)) && m.kill(pid) {
				hit[pid] = true
			}
		}
		if empty++; len(found) > 0 {
			empty = 0
		}
		if len(found) > 0 && passed >= grace+most {
			return len(hit), found, nil
		}
		time.Sleep(markRound)
	}
	return len(hit), nil, nil
}
