package spawn

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"ibrun/internal/proc"
)

// Look is what is seen of a rank: of its process and all below it.
type Look struct {
	State  byte          // of the process that does the work: its letter in /proc/PID/stat
	CPU    time.Duration // of all together
	Busy   uint32        // of one CPU, in thousandths
	Memory uint64        // that is resident, in bytes
	CPUs   string        // that it may use
	Waits  string        // the system call or place in the kernel; empty: it runs
	worker int           // PID of the process that does the work: the rank's own, or the child of its shell
}

// Looks remembers the CPU times of ranks, so that the next look knows how busy they were between.
// The zero value has seen nothing. It may be used from several goroutines.
type Looks struct {
	mu   sync.Mutex
	last map[int]sample // by process
}

type sample struct {
	at   time.Time
	cpu  time.Duration
	busy uint32
}

const (
	tick          = time.Second / 100 // of /proc/PID/stat, on all machines that Linux has
	mostProcesses = 256               // of a rank that are looked at
	mostFile      = 64 << 10          // bytes of a file in /proc
	shortest      = 200 * time.Millisecond
)

// The words of /proc/PID/stat behind the name, proc(5).
const (
	wordState = 0
	wordUser  = 11
	wordSys   = 12
	wordStart = 19
)

// At looks at a rank's process; false: it is gone.
func (l *Looks) At(pid int) (Look, bool) {
	words := proc.Stat(pid)
	if len(words) <= wordStart || words[wordState] == "Z" || words[wordState] == "X" {
		return Look{}, false
	}
	look := Look{worker: pid}
	began := ticks(words[wordStart])
	alone := true // each process so far waits for its only child, as a shell around a program does
	for todo, seen := []int{pid}, 0; len(todo) > 0 && seen < mostProcesses; seen++ {
		at := todo[0]
		if words = proc.Stat(at); len(words) <= wordStart {
			todo = todo[1:]
			continue
		}
		look.CPU += ticks(words[wordUser]) + ticks(words[wordSys])
		look.Memory += resident(at)
		if alone {
			look.worker, look.State = at, words[wordState][0]
		}
		children := proc.Children(at)
		alone = alone && len(children) == 1 && strings.Contains(waits(at, words[wordState][0]), "wait")
		todo = append(todo[1:], children...)
	}
	look.CPUs = statusField(look.worker, "Cpus_allowed_list")
	look.Waits = waits(look.worker, look.State)
	look.Busy = l.busy(pid, look.CPU, began)
	return look, true
}

func ticks(word string) time.Duration {
	n, _ := strconv.ParseInt(word, 10, 64)
	return time.Duration(n) * tick
}

// busy is how much of a CPU a rank has used since it was last asked; at the first time, since it
// began.
func (l *Looks) busy(pid int, cpu, began time.Duration) uint32 {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == nil {
		l.last = map[int]sample{}
	}
	last, seen := l.last[pid]
	passed := now.Sub(last.at)
	switch {
	case seen && passed < shortest:
		return last.busy
	case !seen || cpu < last.cpu:
		last.cpu, passed = 0, uptime()-began
	}
	busy := uint32(0)
	if passed > 0 {
		busy = uint32(max(0, (cpu-last.cpu)*1000/passed))
	}
	l.last[pid] = sample{now, cpu, busy}
	return busy
}

func uptime() time.Duration {
	text, _ := proc.Read("/proc/uptime", mostFile)
	word, _, _ := strings.Cut(string(text), " ")
	seconds, _ := strconv.ParseFloat(word, 64)
	return time.Duration(seconds * float64(time.Second))
}

func resident(pid int) uint64 {
	text, _ := read(pid, "statm")
	words := strings.Fields(text)
	if len(words) < 2 {
		return 0
	}
	pages, _ := strconv.ParseUint(words[1], 10, 64)
	return pages * uint64(os.Getpagesize())
}

func read(pid int, file string) (string, error) {
	text, err := proc.Read("/proc/"+strconv.Itoa(pid)+"/"+file, mostFile)
	return string(text), err
}

// statusField returns the value of a field of /proc/PID/status. It returns "" if the process has ended or the kernel
// has no such field. Lists of CPUs and of memory nodes are those of the first thread, in the form "0-3,8".
func statusField(pid int, name string) string {
	text, _ := read(pid, "status")
	_, rest, _ := strings.Cut(text, "\n"+name+":")
	line, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(line)
}

// waits is what the first thread of a process waits in; empty: it waits for nothing but a CPU.
func waits(pid int, state byte) string {
	switch state {
	case 'R':
		return ""
	case 'T', 't':
		return "stopped"
	}
	if text, err := read(pid, "syscall"); err == nil {
		word, _, _ := strings.Cut(text, " ")
		if number, err := strconv.Atoi(strings.TrimSpace(word)); err == nil && number >= 0 {
			return syscallName(number)
		}
	}
	place, _ := read(pid, "wchan")
	if place = strings.TrimSpace(place); place != "" && place != "0" {
		return place
	}
	return "the kernel"
}

// isGo reports whether a process runs a program made by Go: the linker puts a note with its name
// at the beginning of the file.
func isGo(pid int) bool {
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/exe")
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, 8<<10)
	n, _ := f.ReadAt(head, 0)
	return bytes.Contains(head[:n], []byte("Go\x00\x00"))
}
