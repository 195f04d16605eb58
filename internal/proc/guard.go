package proc

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"
)

// guardPatience is how long the guard goes on killing what will not die.
const guardPatience = 10 * time.Second

// oneThread lets Go's runtime begin with what the agent wants, instead of
// stopping it for a change. Ranks do not see the agent's environment.
const oneThread = "GOMAXPROCS=1"

// Guard runs argv and sees to it that nothing outlives it: when the process
// dies, of whatever cause, every descendant is killed, however it was forked
// and whatever session it is in. The process gets this one's descriptors 0, 1
// and 2, and as descriptor 3 a pipe that ends when the guard dies. Guard
// returns the exit code for this process.
func Guard(path string, argv []string) int {
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(20)
	if err := BecomeSubreaper(); err != nil {
		fmt.Fprintf(os.Stderr, "ibrun: cannot adopt orphans on this node: %v\n", err)
		return 125
	}
	Shrug(syscall.SIGINT, syscall.SIGHUP, syscall.SIGPIPE, syscall.SIGTERM)
	watch, alive, err := os.Pipe()
	if err != nil {
		fmt.Fprintf(os.Stderr, "ibrun: guard: %v\n", err)
		return 125
	}
	// The process outlives the guard for as long as it takes to clean up, and a
	// signal to the guard's group does not reach it: if both died at once, what
	// forked away from the ranks would stay.
	p, err := Start(Cmd{
		Path: path, Argv: argv, Env: append(os.Environ(), oneThread), Setsid: true, Orphan: true,
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr, watch},
	})
	if err != nil {
		fmt.Fprintf(os.Stderr, "ibrun: guard: %v\n", err)
		return 125
	}
	watch.Close()
	letGo()
	<-p.Done()
	KillDescendants(guardPatience)
	runtime.KeepAlive(alive)
	if s := p.Status(); s.Exited() {
		return s.ExitStatus()
	}
	return 128 + int(p.Status().Signal())
}

// Shrug makes signals do nothing. Unlike ignoring them, it does not pass to
// the programs that this process starts.
func Shrug(signals ...os.Signal) {
	c := make(chan os.Signal, 1) // what does not fit is dropped, as is what does
	signal.Notify(c, signals...)
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
