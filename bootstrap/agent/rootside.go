package agent

import (
	"net"
	"os"

	"ibrun/bootstrap/ccs"
	"ibrun/bootstrap/core"
	"ibrun/bootstrap/wire"
	"ibrun/internal/job"
)

// RootConfig is a whole job as its root runs it.
type RootConfig struct {
	Job    *job.Job
	Nodes  job.Nodes // placed: each node knows its ranks
	Here   int       // index of the node that is this machine; -1: none
	Host   string    // name of this machine in reports
	Policy core.Policy
	Stdin  *os.File
	Out    *Sink
	Report func(what any) // what core.Report carries; called on the loop, must not block
	Warn   func(text string)

	// CCSPort, if not nil, is the port for clients of programs of Charm++ on this machine's
	// loopback; 0: any. CCSKeys are those that they must know.
	CCSPort *uint16
	CCSKeys ccs.Keys
	// Tool is the connection of a tool that has launched the job, or nil. When it ends while ranks
	// are held, they are released, or with ToolEnds the job is ended.
	Tool     *net.UnixConn
	ToolEnds bool
	// Debugger is how debuggers find ranks, or nil.
	Debugger *Debugger

	Parent    *Parent        // of a spawned job
	Offspring wire.Offspring // what jobs that ranks spawn take over; Job and Spawn are filled in here
}

// rootSide is what only the root's loop has.
type rootSide struct {
	cfg     RootConfig
	stdin   chan int // bytes that may be read; the core owes at most a few windows
	reading bool
	outcome core.Outcome
	control *controlSide // nil: there is no control socket
	ccs     *ccsSide

	offspring map[uint32]*offspring
}
