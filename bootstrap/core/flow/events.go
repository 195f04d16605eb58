package flow

import (
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// DaemonsAsked is a caller's order, at the root: one daemon on each node, or on those of some hosts,
// or one beside each rank there, or the one beside a rank that reads what the caller sends. ID is the
// driver's, and not 0. It is answered by DaemonsPrinted, and once by DaemonsOver.
type DaemonsAsked struct {
	ID      uint32
	PerRank bool
	Hosts   []string // none: all
	Argv    []string

	Input  wire.DaemonInputKind // none: OfRank and Window mean nothing
	OfRank job.Slot
	Window job.Window
}

// DaemonsTaken says that a caller has taken N bytes.
type DaemonsTaken struct{ ID, N uint32 }

// DaemonsLeft says that a caller is gone.
type DaemonsLeft struct{ ID uint32 }

// DaemonsKept lets daemons live on when their caller goes. Their output is dropped from now on.
type DaemonsKept struct{ ID uint32 }

// DaemonOutput is what a daemon of this node wrote. Its reader waits for ResumeDaemon.
type DaemonOutput struct{ wire.DaemonOutput }

// DaemonExited is the end of a daemon of this node, or why it did not start. No output follows.
type DaemonExited struct {
	ID, Number uint32
	Status     job.Status
	Cause      string
}

// DaemonFed is what a caller sends to its daemon. The caller keeps to the credit of SessionRoom,
// and begins with InputCredit.
type DaemonFed struct {
	ID uint32
	wire.Stdin
}

// DaemonInputRead says that the daemon of an order has taken N bytes.
type DaemonInputRead struct{ ID, N uint32 }

// DaemonInputClosed says that the daemon of an order reads no more.
type DaemonInputClosed struct{ ID uint32 }

// MembersOn is a host, and how many members of a session it has.
type MembersOn struct {
	Host  string
	Count uint32
}

// SessionAsked is a caller's order, at the root, as DaemonsAsked is. It is answered by SessionOpened,
// or by DaemonsOver if none is started.
type SessionAsked struct {
	ID      uint32
	On      []MembersOn // none: one on each node that has ranks
	PerRank bool        // one beside each rank of these hosts, or of all: no count means anything
	Argv    []string
	Env     []string
}

// SessionSent is what a caller sends to member 0. The caller keeps to the credit of SessionRoom.
type SessionSent struct {
	ID   uint32
	Data rankwire.ToolPiece
}

// SessionTaken says that a caller has taken data that cost N.
type SessionTaken struct{ ID, N uint32 }

// MemberFrame is what a member of this node says.
type MemberFrame struct {
	ID     uint32
	Member job.Slot
	Msg    frame.Message
}

func (DaemonsAsked) IsEvent()      {}
func (DaemonsTaken) IsEvent()      {}
func (DaemonsLeft) IsEvent()       {}
func (DaemonsKept) IsEvent()       {}
func (DaemonOutput) IsEvent()      {}
func (DaemonExited) IsEvent()      {}
func (DaemonFed) IsEvent()         {}
func (DaemonInputRead) IsEvent()   {}
func (DaemonInputClosed) IsEvent() {}
func (SessionAsked) IsEvent()      {}
func (SessionSent) IsEvent()       {}
func (SessionTaken) IsEvent()      {}
func (MemberFrame) IsEvent()       {}

// StartDaemons starts daemons on this node. The driver answers DaemonExited for each.
type StartDaemons struct {
	ID      uint32
	PerRank bool
	Argv    []string
	Number  uint32     // of the one of the node
	Place   uint32     // of the node among those that are meant
	Ranks   []job.Slot // of this node that run, or the one that it is beside
	Input   wire.DaemonInputKind
	Window  job.Window

	// Of a session: members from First on, in place of one.
	First job.Slot
	Count uint32
	Size  uint32 // of all members; 0: no session
	Env   []string
}

// KillDaemons kills those of an order, with all that they have started.
type KillDaemons struct{ ID uint32 }

// ResumeDaemon lets the reader of a daemon's stream go on.
type ResumeDaemon struct {
	ID, Number uint32
	Stream     uint8
}

// FeedDaemon gives input to the daemon of an order. The driver answers DaemonInputRead or
// DaemonInputClosed.
type FeedDaemon struct {
	ID uint32
	wire.Stdin
}

// DaemonsPrinted is output for a caller. The driver answers DaemonsTaken.
type DaemonsPrinted struct{ wire.DaemonOutput }

// DaemonsOver tells a caller how its daemons have ended. Refused: why none was started.
type DaemonsOver struct {
	wire.DaemonsEnded
	Refused string
}

// TellMember gives a frame to a member of this node.
type TellMember struct {
	ID     uint32
	Member job.Slot
	Msg    frame.Message
}

// SessionOpened tells a caller where the members of its session are, in the order of their numbers.
type SessionOpened struct {
	ID uint32
	On []MembersOn
}

// SessionReceived is a piece of what member 0 sends to a caller. The driver answers SessionTaken.
type SessionReceived struct {
	ID   uint32
	Data rankwire.ToolPiece
}

// SessionRoom lets a caller send what costs N more.
type SessionRoom struct{ ID, N uint32 }

// Violation asks the core to give up the link to the parent, which has sent Msg against the rule Rule.
type Violation struct {
	Msg  frame.Message
	Rule string
}

func (StartDaemons) IsEffect()    {}
func (KillDaemons) IsEffect()     {}
func (ResumeDaemon) IsEffect()    {}
func (FeedDaemon) IsEffect()      {}
func (DaemonsPrinted) IsEffect()  {}
func (DaemonsOver) IsEffect()     {}
func (TellMember) IsEffect()      {}
func (SessionOpened) IsEffect()   {}
func (SessionReceived) IsEffect() {}
func (SessionRoom) IsEffect()     {}
func (Violation) IsEffect()       {}
