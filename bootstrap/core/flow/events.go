package flow

import (
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// DaemonsAsked is a caller's order for daemons, at the root: one on each node of Hosts, or, if PerRank is set, one
// beside each rank on these nodes. If Input is not ReadsNothing, the order is for one daemon, which runs beside the
// rank OfRank and reads what the caller sends. The driver chooses ID, which is not 0. The core answers with any number
// of DaemonsPrinted and one DaemonsOver.
type DaemonsAsked struct {
	ID      uint32
	PerRank bool
	Hosts   []string // empty for all hosts
	Argv    []string

	Input  wire.DaemonInputKind // if this is ReadsNothing, OfRank and Window are ignored
	OfRank job.Slot
	Window job.Window
}

// DaemonsTaken says that a caller has read N bytes of the output of its daemons.
type DaemonsTaken struct{ ID, N uint32 }

// DaemonsLeft says that a caller has disconnected. Its daemons are killed.
type DaemonsLeft struct{ ID uint32 }

// DaemonsKept lets the daemons of a caller outlive its connection. Their output is dropped from now on.
type DaemonsKept struct{ ID uint32 }

// DaemonOutput is output of a daemon of this node. The driver reads no more of the same stream before ResumeDaemon.
type DaemonOutput struct{ wire.DaemonOutput }

// DaemonExited says that a daemon of this node has ended, or that it could not be started. Cause is then the reason. No
// output of the daemon follows.
type DaemonExited struct {
	ID, Number uint32
	Status     job.Status
	Cause      string
}

// DaemonFed is input that a caller sends to its daemon. The caller may send InputCredit bytes at first, and more when
// SessionRoom grants them.
type DaemonFed struct {
	ID uint32
	wire.Stdin
}

// DaemonInputRead says that the daemon of an order has read N bytes of input.
type DaemonInputRead struct{ ID, N uint32 }

// DaemonInputClosed says that the daemon of an order has stopped reading input.
type DaemonInputClosed struct{ ID uint32 }

// MembersOn is a host and the number of session members on it.
type MembersOn struct {
	Host  string
	Count uint32
}

// SessionAsked is a caller's order for a session, at the root. The driver chooses ID as for DaemonsAsked. The core
// answers with SessionOpened first, unless it refuses the order, and with one DaemonsOver at the end.
type SessionAsked struct {
	ID      uint32
	On      []MembersOn // if this is empty, all nodes of the job have members, one each
	PerRank bool        // one member beside each rank on these hosts; the counts in On are ignored
	Argv    []string
	Env     []string
}

// SessionSent carries data from a caller to member 0. The caller may send data of the cost rankwire.ToolCredit at
// first, and more when SessionRoom grants it.
type SessionSent struct {
	ID   uint32
	Data rankwire.ToolPiece
}

// SessionTaken says that the caller of the session ID has received messages from member 0, or that its client side has
// dropped them. N is the sum of their costs in bytes (rankwire.ToolPiece.Cost).
type SessionTaken struct{ ID, N uint32 }

// MemberFrame is a message of a member of this node.
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

// StartDaemons starts daemons on this node. The driver answers with one DaemonExited for each.
type StartDaemons struct {
	ID      uint32
	PerRank bool
	Argv    []string
	Number  uint32     // number of the daemon, if it is the only one on this node
	Place   uint32     // number of nodes of the order before this node
	Ranks   []job.Slot // running ranks of this node, or the rank of a daemon that reads input
	Input   wire.DaemonInputKind
	Window  job.Window

	// For a session, Count members are started on this node, with numbers from First on.
	First job.Slot
	Count uint32
	Size  uint32 // number of all members; 0 if this is no session
	Env   []string
}

// KillDaemons kills the daemons of an order on this node, and all processes that they have started.
type KillDaemons struct{ ID uint32 }

// ResumeDaemon lets the driver read more output of one stream of a daemon.
type ResumeDaemon struct {
	ID, Number uint32
	Stream     uint8
}

// FeedDaemon passes input to the daemon of an order. The driver answers with DaemonInputRead or DaemonInputClosed.
type FeedDaemon struct {
	ID uint32
	wire.Stdin
}

// DaemonsPrinted is daemon output for a caller. The driver answers with DaemonsTaken.
type DaemonsPrinted struct{ wire.DaemonOutput }

// DaemonsOver tells a caller how its daemons have ended. If the order was refused, Refused is the reason.
type DaemonsOver struct {
	wire.DaemonsEnded
	Refused string
}

// TellMember sends a message to a member of this node.
type TellMember struct {
	ID     uint32
	Member job.Slot
	Msg    frame.Message
}

// SessionOpened tells a caller the hosts of its session's members, in the order of the member numbers.
type SessionOpened struct {
	ID uint32
	On []MembersOn
}

// SessionReceived carries data from member 0 to a caller. The driver answers with SessionTaken.
type SessionReceived struct {
	ID   uint32
	Data rankwire.ToolPiece
}

// SessionRoom grants a caller credit: N more bytes of input for its daemon, or data for member 0 of the cost N.
type SessionRoom struct{ ID, N uint32 }

// Violation asks the core to close the link to the parent, because Msg from the parent is invalid. Rule is the reason.
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
