package agent

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"ibrun/bootstrap/core"
	"ibrun/bootstrap/reaper"
	"ibrun/bootstrap/remote"
	"ibrun/internal/build"
	"ibrun/internal/poll"
	"ibrun/internal/proc"
	"ibrun/internal/safefile"
)

// linkBuffer is the size in bytes of the buffer for reading a link. Frames that are larger bypass it.
const linkBuffer = 4 << 10

// lastWords limits how long an agent that ends waits for its parent to receive the last messages. After this time,
// the agent considers the parent lost.
const lastWords = 60 * time.Second

// Main runs the agent of a node until its job has ended. The agent reads messages from its parent on standard input and
// writes messages to it on standard output. Main returns the exit code of this process: 0, 125 if the agent could not
// start, or remote.CutOff if it closed the link to its parent and no other agent became its parent. An agent closes the
// link if the parent is silent, or if a child reports a parent nearer to the root. Exit codes of ranks do not matter.
func Main() int {
	if err := proc.BecomeSubreaper(); err != nil {
		fmt.Fprintf(os.Stderr, "ibrun: cannot adopt orphans on this node: %v\n", err)
		return 125
	}
	proc.Shrug(syscall.SIGPIPE)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	l := newLoop(ctx, core.Config{Here: -1, Path: remote.LocalAddress()})
	l.cores.save()
	l.warn = func(text string) { // the user reads the root's standard error, not this one
		l.hear(core.Notice{Text: text})
	}
	l.up = newLink()
	if err := greet(); err != nil {
		return 125
	}
	l.watchReaper()
	l.watchSignals()
	go l.up.write(os.Stdout)
	l.hear(core.Opened{})
	go l.readUp(l.up, poll.ParkedReader(os.Stdin))
	l.run()
	if l.server != nil {
		removeShared(l.server.Shared())
	}
	l.up.drain(lastWords)
	l.fold()
	if l.reaped {
		_ = syscall.Kill(os.Getppid(), syscall.SIGCONT) // continue the reaper if it is stopped
	}
	if l.cutOff {
		return remote.CutOff
	}
	return l.left
}

// greet connects standard input and output to the parent's port if the parent waits for a connection. Then greet writes
// the agent's first line, with its build, machine and process ID.
func greet() error {
	if err := remote.Call(); err != nil {
		fmt.Fprintf(os.Stderr, "ibrun: %v\n", err)
		return err
	}
	_, err := fmt.Printf("::ibrun-agent:1 %s %s %d::\n", build.ID(), build.Machine(), os.Getpid())
	return err
}

// removeShared removes the shared memory files at the given paths. The ranks have named the paths, so removeShared
// leaves files of other users in place.
func removeShared(paths []string) {
	for _, path := range paths {
		if dir, err := safefile.Open(filepath.Dir(path)); err == nil {
			_ = dir.Remove(filepath.Base(path)) // most are gone
			dir.Close()
		}
	}
}

// watchReaper starts a goroutine that reports the death of the reaper. It does nothing if this agent has no reaper, for
// example in a debugger: then the descriptor reaper.Pipe is not a pipe.
func (l *loop) watchReaper() {
	var st syscall.Stat_t
	if syscall.Fstat(reaper.Pipe, &st) != nil || st.Mode&syscall.S_IFMT != syscall.S_IFIFO {
		return
	}
	syscall.CloseOnExec(reaper.Pipe)
	_ = syscall.SetNonblock(reaper.Pipe, true) // the runtime's poller waits then, and no thread
	f := os.NewFile(reaper.Pipe, "reaper")
	l.reaped = true
	go func() {
		if _, err := io.Copy(io.Discard, f); err == nil {
			l.ReaperLost(core.ReaperLost{})
		}
	}()
}

func (l *loop) watchSignals() {
	signals := []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2}
	for _, s := range reaper.Passed {
		signals = append(signals, reaper.AsPassed(s))
	}
	proc.Signals(func(s syscall.Signal) {
		was := reaper.WasPassed(s)
		switch passed := slices.Contains(reaper.Passed, was); {
		case passed && was != syscall.SIGTERM:
			l.NodeSignal(core.NodeSignal{Number: uint8(was)})
		case passed:
			l.EndRequested(core.EndRequested{Signal: uint8(was)})
		case s == syscall.SIGUSR1 || s == syscall.SIGUSR2:
			l.NodeSignal(core.NodeSignal{Number: uint8(s), Direct: true})
		default:
			l.EndRequested(core.EndRequested{Signal: uint8(s)})
		}
	}, signals...)
}

// leave kills the descendants of this agent, including its sessions to children. The reaper would do so after the
// agent has ended, but the reaper may have been killed.
func (l *loop) leave(signal uint8) {
	proc.KillDescendants(killWait)
	l.left = 128 + int(signal)
}
