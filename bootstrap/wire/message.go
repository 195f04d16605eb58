package wire

import (
	"ibrun/bootstrap/frame"
	"ibrun/job"
)

// MaxData bounds the output or input in one message, in bytes.
const MaxData = 32 << 10

// Launch is the first frame to a child: the job, and what the child answers for.
// It serves the first node of Nodes, and starts the others and those of Share.
type Launch struct {
	Job    *job.Job
	Nodes  job.Nodes // with the ranks on each
	Share  []job.Part
	First  job.NodeIndex // index of its first node in the job
	Level  uint32        // depth of the child in the tree; the root is 0
	Credit uint32        // bytes of Output that may be sent before the first Grant
	// SessionMs is how long the session to the agent took.
	SessionMs uint32
	// Replaces says that the agent takes the place of one that was lost: Standing follows, and its
	// ranks wait for Respawn.
	Replaces bool
}

// Ready says that all of a subtree is settled: every agent of it runs or has failed.
type Ready struct{ Up, Failed uint32 } // agents

// Exit is the last message of a subtree: how its ranks ended, in rank order,
// merged into runs, and what was left to report.
type Exit struct {
	Runs      Endings
	Truncated uint64 // bytes of output that were given up
	MPI       job.MPIFindings
}

// Endings are how ranks ended.
type Endings = frame.List[job.StatusRun, endingCodec]

type endingCodec struct{}

// Output carries what a rank wrote: Stream 1 or 2.
type Output struct {
	Rank   job.Slot
	Stream uint8
	Data   []byte // 1 to MaxData bytes
}

// Grant returns credit for N bytes of Output.
type Grant struct{ N uint32 }

// Stdin carries standard input for the ranks that Job.Stdin names.
type Stdin struct {
	Data   []byte // up to MaxData bytes; may be empty only with EOF or a window
	EOF    bool
	Window job.Window // if not zero, the terminal has this size from here on
}

// StdinRoom allows N more bytes of Stdin.
type StdinRoom struct{ N uint32 }

// Signal is sent on to every rank's process group.
type Signal struct{ Number uint8 }

// End orders the end of the job: CONT and Signal now, KILL after the grace.
type End struct {
	Signal  uint8
	GraceMs uint32
}

// FaultKind says what went wrong.
type FaultKind uint8

const (
	FaultRank     FaultKind = 1 // a rank ended badly, or well but left its peers waiting: Rank, Status
	FaultFork     FaultKind = 2 // ranks could not be started: Rank, Count, Status, Cause
	FaultLaunch   FaultKind = 3 // a session failed: Phase, Cause, Tail; Nodes agents never came
	FaultLost     FaultKind = 4 // an agent was lost after it came up: Nodes agents with it
	FaultAbort    FaultKind = 5 // a rank asked for the end of the job: Rank, Status, Cause
	FaultFallback FaultKind = 6 // a session failed and another one from elsewhere did not: no harm; Phase, Cause
	FaultRollback FaultKind = 7 // a rank asked that all start again: Rank, Status, Cause
)

// Fault reports one failure at once, before Exit.
type Fault struct {
	What   FaultKind
	Node   job.NodeIndex
	Nodes  uint32 // nodes concerned, from Node on
	Rank   job.Slot
	Count  uint32 // ranks concerned, from Rank on
	Status job.Status
	// Awaited, of FaultRank: the rank had joined its peers by PMI or PMIx, and neither taken its
	// leave nor aborted.
	Awaited bool
	Host    string // of Node
	Parent  string // host of the agent that saw it
	Phase   string // for FaultLaunch
	Cause   string
	Tail    string // the session's last lines
	AgeMs   uint32 // since it was seen
	// Excused, of FaultRank: the job goes on without the rank, whose program has asked for that.
	Excused  bool
	SilentMs uint32 // for FaultLost: since the last frame of the agent
}

// Waiting names slow sessions: sent at most every few seconds, and
// never in a launch that takes less than three.
type Waiting struct{ Items []SlowSession } // at most MaxSlowSessions

// SlowSession is one session that has not come up yet.
type SlowSession struct {
	Node  job.NodeIndex
	Host  string
	Phase string
	ForMs uint32
}

// Heartbeat shows that the sender's loop runs. It is sent on links idle for two seconds.
type Heartbeat struct{}
