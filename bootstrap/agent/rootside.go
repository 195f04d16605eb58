package agent

import (
	"net"
	"os"

	"ibrun/bootstrap/ccs"
	"ibrun/bootstrap/core"
	"ibrun/bootstrap/wire"
	"ibrun/internal/job"
)

// RootConfig holds the job and the settings for RunRoot.
type RootConfig struct {
	Job    *job.Job
	Nodes  job.Nodes // with the ranks placed on them
	Here   int       // index of the node that is this machine; -1: none
	Host   string    // name of this machine in reports
	Policy core.Policy
	Stdin  *os.File
	Out    *Sink
	Report func(what any) // called by the loop with the field What of core.Report; must not block
	Warn   func(text string)

	// CCSPort is the TCP port on the loopback interface for CCS clients of a Charm++ program. 0 selects a free
	// port; nil means that no port is opened. CCSKeys are the keys that clients may sign with (ccs.Keys).
	CCSPort *uint16
	CCSKeys ccs.Keys
	// Tool is the connection to the tool that has launched the job, or nil. If it is closed while ranks are held
	// before their programs run, the root releases the ranks, or ends the job if ToolEnds is true.
	Tool     *net.UnixConn
	ToolEnds bool
	// Debugger passes the ranks to debuggers that use the MPIR interface. It is nil if there is no such interface.
	Debugger *Debugger

	Parent    *Parent        // root of the job that spawned this one; nil unless a rank spawned it
	Offspring wire.Offspring // for jobs that ranks spawn; the root sets Job and Spawn itself
}

// rootSide holds the part of a loop's state that only the root has.
type rootSide struct {
	cfg RootConfig
	// Each value of stdin is a number of further bytes that readStdin may read. The core allows at least 64 KiB at a time,
	// and at most 256 KiB that have not been read yet. So the channel is never full. It is never closed.
	stdin   chan int
	reading bool // readStdin is running
	outcome core.Outcome
	control *controlSide // nil until the control socket is opened
	ccs     *ccsSide

	// offspring holds the jobs that ranks of this job have spawned.
	offspring map[uint32]*offspring
}
