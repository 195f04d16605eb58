// Package guard stands above an agent: when the agent ends, of whatever cause,
// it kills every descendant that is left, however it was forked and whatever
// session it is in (docs/decisions/0002-guard-above-the-agent.md). It knows
// nothing of jobs.
//
// A guard is a process that waits. Where the linker was told so, on x86-64, it
// forks before Go's runtime has begun (entry_linux_amd64.s), which costs a node
// a tenth of what a second process of Go does; otherwise Main does the same.
package guard

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"

	"ibrun/internal/proc"
)

// The first arguments of the roles. entry_linux_amd64.s has them, too.
const (
	Role  = ":guard" // becomes a guard, which starts the agent with the arguments that follow
	Agent = ":agent"
	Sweep = ":sweep" // what a guard becomes that has something to kill; its exit code follows
)

// Pipe is the descriptor on which an agent reads the end of its guard, which
// alone holds the other end.
const Pipe = 3

// patience is how long a guard goes on killing what will not die.
const patience = 10 * time.Second

// oneThread lets Go's runtime begin with what the agent wants, instead of
// stopping it for a change. Ranks do not see the agent's environment.
const oneThread = "GOMAXPROCS=1"

// Main is a guard that has begun in Go. args go to the agent, besides this
// process's descriptors 0, 1 and 2. It returns the exit code for this process,
// which is the agent's, or 128 and the signal that killed it.
func Main(args []string) int {
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(20)
	if err := proc.BecomeSubreaper(); err != nil {
		fmt.Fprintf(os.Stderr, "ibrun: cannot adopt orphans on this node: %v\n", err)
		return 125
	}
	proc.Shrug(syscall.SIGINT, syscall.SIGHUP, syscall.SIGPIPE, syscall.SIGTERM)
	watch, alive, err := os.Pipe()
	if err != nil {
		fmt.Fprintf(os.Stderr, "ibrun: guard: %v\n", err)
		return 125
	}
	// The agent outlives the guard for as long as it takes to clean up, and a
	// signal to the guard's group does not reach it: if both died at once, what
	// forked away from the ranks would stay.
	p, err := proc.Start(proc.Cmd{
		Path: "/proc/self/exe", Argv: append([]string{os.Args[0], Agent}, args...), Env: append(os.Environ(), oneThread), Setsid: true, Orphan: true,
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr, watch},
	})
	if err != nil {
		fmt.Fprintf(os.Stderr, "ibrun: guard: %v\n", err)
		return 125
	}
	watch.Close()
	letGo()
	<-p.Done()
	proc.KillDescendants(patience)
	runtime.KeepAlive(alive)
	if s := p.Status(); s.Exited() {
		return s.ExitStatus()
	}
	return 128 + int(p.Status().Signal())
}

// letGo drops the guard's hold of the link, which is the agent's alone.
func letGo() {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return
	}
	for fd := range 3 {
		_ = syscall.Dup3(int(null.Fd()), fd, 0)
	}
	null.Close()
}

// SweepMain is a guard that has done without Go until something was left of its
// agent: it kills that, and returns the exit code in args[0].
func SweepMain(args []string) int {
	proc.KillDescendants(patience)
	if len(args) != 1 {
		return 125
	}
	code, err := strconv.ParseUint(args[0], 10, 8)
	if err != nil {
		return 125
	}
	return int(code)
}
