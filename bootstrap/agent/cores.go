package agent

import (
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"ibrun/bootstrap/tree"
)

// mostCores is what handshakes may use: 16 of them, a parent's usual window,
// take 40 ms of one core.
const mostCores = 8

// Descriptors of a session that comes up, at most, and those that are left for ranks.
const (
	perSession   = 8
	forRanks     = 256
	leastAtATime = 16
)

// mostSessions is how many sessions may be in flight as far as descriptors go.
func mostSessions() int {
	var files unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &files) != nil {
		return leastAtATime
	}
	free := min(files.Cur, tree.MostWindow*perSession+forRanks) // it may be infinite
	return max(leastAtATime, min(int(free)-forRanks, tree.MostWindow*perSession)/perSession)
}

// cores is how much of the node's processors this agent's own code uses. An
// agent shuffles bytes for ranks that want them, and a second thread of Go code
// would mostly spin in search of work: one is enough, but while several sessions
// come up, each with its cryptography in this process. The zero value leaves
// everything as it is.
type cores struct {
	frugal bool
	mu     sync.Mutex
	coming int           // sessions
	begun  int           // of them and those before, since there was none
	before time.Duration // CPU of this process when there was none
}

// save holds the agent to one core from now on, as long as nothing comes up.
func (c *cores) save() {
	c.frugal = true
	runtime.GOMAXPROCS(1)
}

func (c *cores) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.coming == 0 {
		c.before, c.begun = ownCPU(), 0
	}
	c.begun++
	if c.coming++; c.frugal && c.coming == 2 {
		runtime.GOMAXPROCS(min(runtime.NumCPU(), mostCores))
	}
}

// spent is the CPU time of this process for a session, on average of those begun since
// none was coming up.
func (c *cores) spent() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return (ownCPU() - c.before) / time.Duration(max(c.begun, 1))
}

// ownCPU is the CPU time that this process has used.
func ownCPU() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u) // cannot fail
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func (c *cores) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.coming--; c.frugal && c.coming == 0 {
		runtime.GOMAXPROCS(1)
	}
}
