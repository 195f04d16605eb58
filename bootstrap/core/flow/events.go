package flow

import (
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// DaemonsAsked is the request of a caller, a client of the root, for daemons. It asks for one daemon on each node of
// Hosts. If PerRank is set, it asks for one daemon beside each rank on these nodes. If Input is not ReadsNothing, it
// asks for a single daemon, which runs beside the rank OfRank and reads input from the caller. PerRank and Hosts are
// ignored then. The driver chooses ID, which is not 0. The core answers with any number of DaemonsPrinted and one
// DaemonsOver.
type DaemonsAsked struct {
	ID      uint32
	PerRank bool
	Hosts   []string // empty for all hosts
	Argv    []string

	Input  wire.DaemonInputKind // if this is ReadsNothing, OfRank and Window are ignored
	OfRank job.Slot
	Window job.Window // size of the caller's terminal, if the daemon gets a terminal
}

// DaemonsTaken says that N bytes of daemon output were sent to a caller. ID is that of the caller's request.
type DaemonsTaken struct{ ID, N uint32 }

// DaemonsLeft says that a caller has disconnected. Its daemons are killed. ID is that of the caller's request.
type DaemonsLeft struct{ ID uint32 }

// DaemonsKept says that a caller has disconnected, but its daemons continue to run. Their output is dropped from now
// on. ID is that of the caller's request.
type DaemonsKept struct{ ID uint32 }

// DaemonOutput is a chunk of output from a daemon of this node. ID is that of the order. The driver reads no more from
// the same stream until it receives ResumeDaemon.
type DaemonOutput struct{ wire.DaemonOutput }

// DaemonExited says that a daemon of this node has ended or could not be started. Its DaemonOutput events come before
// this one. ID is that of the order. Number identifies the daemon: it is the index of the node, the slot of the
// daemon's rank, or the number of the session member.
type DaemonExited struct {
	ID, Number uint32
	Status     job.Status
	Cause      string // reason why the daemon could not be started; empty if it was started
}

// DaemonFed is input from a caller for its daemon. ID is that of the caller's request. The caller may send InputCredit
// bytes at first, and more when SessionRoom grants credit for them.
type DaemonFed struct {
	ID uint32
	wire.Stdin
}

// DaemonInputRead says that the daemon of the order ID, which runs on this node, has read N bytes of input.
type DaemonInputRead struct{ ID, N uint32 }

// DaemonInputClosed says that the daemon of the order ID, which runs on this node, has stopped reading input.
type DaemonInputClosed struct{ ID uint32 }

// MembersOn is a host and the number of session members on it.
type MembersOn struct {
	Host  string
	Count uint32
}

// SessionAsked is the request of a caller of the root for a session. The driver chooses ID, as for DaemonsAsked. The
// core answers with SessionOpened first, unless it refuses the request. Its last answer is DaemonsOver.
type SessionAsked struct {
	ID      uint32
	On      []MembersOn // hosts with members; if it is empty, each node of the job has one member
	PerRank bool        // each of these hosts has one member beside each of its ranks, and the counts in On are ignored
	Argv    []string
	Env     []string // NAME=VALUE, added to the environment of the job's program
}

// SessionSent carries data from the caller of the session ID to member 0. At first, the caller may send data whose
// costs (rankwire.ToolPiece.Cost) add up to rankwire.ToolCredit bytes. SessionRoom allows it to send more.
type SessionSent struct {
	ID   uint32
	Data rankwire.ToolPiece
}

// SessionTaken says that the data of a SessionReceived was sent to the caller of the session ID, or was dropped after
// DaemonsKept. N is the cost of the data in bytes (rankwire.ToolPiece.Cost). Member 0 gets new credit for it.
type SessionTaken struct{ ID, N uint32 }

// MemberFrame is a message of a member that runs on this node. ID is that of the session's order.
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

// StartDaemons starts the daemons of the order ID on this node. The driver reports DaemonExited once for each of them.
type StartDaemons struct {
	ID      uint32
	PerRank bool
	Argv    []string
	Number  uint32     // index of this node, which is the daemon's number if the node has only one daemon
	Place   uint32     // number of nodes of the order with a smaller index than this node
	Ranks   []job.Slot // running ranks of this node; for a daemon that reads input, only OfRank of the request
	Input   wire.DaemonInputKind
	Window  job.Window // as in DaemonsAsked

	// The following fields are zero unless the daemons are members of a session.
	First job.Slot // number of the first member on this node
	Count uint32   // number of members on this node
	Size  uint32   // number of members of the session
	Env   []string // as in SessionAsked
}

// KillDaemons kills the daemons of the order ID on this node, and all processes that they have started.
type KillDaemons struct{ ID uint32 }

// ResumeDaemon lets the driver read the next chunk of DaemonOutput from one stream of a daemon.
type ResumeDaemon struct {
	ID, Number uint32
	Stream     uint8
}

// FeedDaemon passes input to the only daemon of the order ID. The driver answers with DaemonInputRead when the daemon
// has read input, and with DaemonInputClosed when the daemon stops reading.
type FeedDaemon struct {
	ID uint32
	wire.Stdin
}

// DaemonsPrinted is daemon output for a caller. ID is that of the caller's request. The driver answers with
// DaemonsTaken.
type DaemonsPrinted struct{ wire.DaemonOutput }

// DaemonsOver tells a caller how its daemons have ended. ID is that of the caller's request. Refused is the reason if
// the request was refused, and empty otherwise.
type DaemonsOver struct {
	wire.DaemonsEnded
	Refused string
}

// TellMember sends a message to a member that runs on this node. ID is that of the session's order.
type TellMember struct {
	ID     uint32
	Member job.Slot
	Msg    frame.Message
}

// SessionOpened tells a caller on which hosts the members of its session run, in the order of their numbers. ID is that
// of the caller's request.
type SessionOpened struct {
	ID uint32
	On []MembersOn
}

// SessionReceived carries data from member 0 to the caller of the session ID. The driver answers with SessionTaken.
type SessionReceived struct {
	ID   uint32
	Data rankwire.ToolPiece
}

// SessionRoom grants credit to a caller. ID is that of the caller's request. The caller may send N more bytes of input
// for its daemon. In a session, it may send data for member 0 with a cost of N more bytes (rankwire.ToolPiece.Cost).
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
