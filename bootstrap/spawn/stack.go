package spawn

import (
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"ibrun/internal/proc"
)

const (
	mostFrames = 32      // of a stack; the innermost are kept
	mostOutput = 1 << 20 // bytes that are read of a tool
)

// Tool shows the stacks of a process. The zero value knows /proc only.
type Tool struct {
	path string
	argv func(pid string) []string
}

// FindTool looks for eu-stack, which takes a tenth of the time, and gdb.
func FindTool() Tool {
	env := os.Environ()
	if path, err := FindProgram("eu-stack", "/", env); err == nil {
		return Tool{path, func(pid string) []string { return []string{path, "-p", pid} }}
	}
	if path, err := FindProgram("gdb", "/", env); err == nil {
		return Tool{path, func(pid string) []string {
			return []string{path, "-nx", "-q", "-batch", "-p", pid, "-ex", "thread apply all bt"}
		}}
	}
	return Tool{}
}

// Stack is the text of a rank's stacks, the first thread's in the first line: equal stacks have
// equal texts. Most bounds what a tool may take.
func (t Tool) Stack(look Look, most time.Duration) string {
	// A tool would wait for what is stopped, or let it go on. Of Go it shows threads alone.
	ofGo := isGo(look.worker)
	if t.path != "" && look.State != 'T' && !ofGo {
		if text := Merged(t.run(look.worker, most)); text != "" {
			return text
		}
	}
	switch {
	case look.Waits == "":
		return "computes"
	case ofGo:
		return idleGo
	}
	return "in " + look.Waits
}

// run is what the tool prints; nothing if it cannot.
func (t Tool) run(pid int, most time.Duration) string {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return ""
	}
	defer null.Close()
	ours, theirs, err := proc.PipeFrom()
	if err != nil {
		return ""
	}
	defer ours.Close()
	env := append(os.Environ(), "DEBUGINFOD_URLS=", "LC_ALL=C") // no questions over the network
	p, err := proc.Start(proc.Cmd{Path: t.path, Argv: t.argv(strconv.Itoa(pid)), Env: env, Setpgid: true,
		Files: []*os.File{null, theirs, null}, Most: most})
	theirs.Close()
	if err != nil {
		return ""
	}
	_ = ours.SetReadDeadline(time.Now().Add(most))
	text, err := io.ReadAll(io.LimitReader(ours, mostOutput))
	if err != nil {
		p.SignalGroup(syscall.SIGTERM) // gdb lets its process go
		select {
		case <-p.Done():
		case <-time.After(time.Second):
			p.SignalGroup(syscall.SIGKILL)
		}
		return ""
	}
	return string(text)
}

// idleGo stands for threads of the Go runtime that wait.
const idleGo = "Go runtime, waiting"

// Merged is what a debugger has printed of the threads of a process: a line for each different
// stack, innermost function first, that of the first thread first. Threads of the Go runtime that
// wait are one line, and only if there is no other.
func Merged(printed string) string {
	var threads [][]string
	first := 0 // in gdb's list the first thread comes last
	for line := range strings.Lines(printed) {
		words := strings.Fields(line)
		switch {
		case len(words) > 1 && (words[0] == "Thread" || words[0] == "TID"):
			if words[0] == "Thread" {
				first = len(threads)
			}
			threads = append(threads, nil)
		case len(words) > 1 && strings.HasPrefix(words[0], "#"):
			if len(threads) == 0 {
				threads = append(threads, nil)
			}
			last := &threads[len(threads)-1]
			if name := function(words[1:]); name != "" && len(*last) < mostFrames {
				*last = append(*last, name)
			}
		}
	}
	var lines []string
	idle := false
	for i := range threads {
		at := threads[(first+i)%len(threads)]
		switch {
		case len(at) == 0:
		case ofGo(at):
			idle = true
		default:
			lines = append(lines, strings.Join(at, " <- "))
		}
	}
	if len(lines) == 0 {
		if idle {
			return idleGo
		}
		return ""
	}
	head, rest := lines[0], lines[1:]
	slices.Sort(rest)
	rest = slices.DeleteFunc(slices.Compact(rest), func(line string) bool { return line == head })
	return strings.Join(append([]string{head}, rest...), "\n")
}

// function is the name in a frame's line, behind its number: "0x... in NAME (args) ...",
// "NAME (args)" of gdb, or "0x... NAME - ..." of eu-stack.
func function(words []string) string {
	if strings.HasPrefix(words[0], "0x") {
		words = words[1:]
	}
	if len(words) > 1 && words[0] == "in" {
		words = words[1:]
	}
	if len(words) == 0 {
		return "??"
	}
	name, _, _ := strings.Cut(words[0], "(")
	return name
}

// ofGo reports whether a stack has functions of the Go runtime, and no others that have a name.
func ofGo(frames []string) bool {
	found := false
	for _, name := range frames {
		switch {
		case strings.HasPrefix(name, "runtime."), strings.HasPrefix(name, "internal/runtime/"):
			found = true
		case name != "??":
			return false
		}
	}
	return found
}
