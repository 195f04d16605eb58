package agent

import (
	"runtime"
	"sync"
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
	coming int // sessions
}

// save holds the agent to one core from now on, as long as nothing comes up.
func (c *cores) save() {
	c.frugal = true
	runtime.GOMAXPROCS(1)
}

func (c *cores) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.coming++; c.frugal && c.coming == 2 {
		runtime.GOMAXPROCS(min(runtime.NumCPU(), mostCores))
	}
}

func (c *cores) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.coming--; c.frugal && c.coming == 0 {
		runtime.GOMAXPROCS(1)
	}
}
