package agent

import (
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// mostCores is what handshakes may use: 16 of them, a parent's usual window,
// take 40 ms of one core.
const mostCores = 8

// cores is how much of the node's processors this agent's own code uses. An
// agent shuffles bytes for ranks that want them, and a second thread of Go code
// would mostly spin in search of work: one is enough, but while several sessions
// come up, each with its cryptography in this process. The zero value leaves
// everything as it is.
type cores struct {
	frugal bool
	mu     sync.Mutex
	coming int           // sessions
	before time.Duration // CPU of this process when it was last asked for
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
		c.before = ownCPU()
	}
	if c.coming++; c.frugal && c.coming == 2 {
		runtime.GOMAXPROCS(min(runtime.NumCPU(), mostCores))
	}
}

// spent is the CPU time of this process since it was last asked for, or since no
// session was coming up.
func (c *cores) spent() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := c.before
	c.before = ownCPU()
	return c.before - last
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
