package spawn

import (
	"ibrun/bootstrap/clients/pmixserver"
	"ibrun/bootstrap/core"
	"ibrun/bootstrap/core/flow"
	"ibrun/internal/job"
)

// Events is what a Set reports to its owner. Any goroutine may call its methods. They may block, and until they return,
// the caller does not read from its rank, daemon or connection.
type Events interface {
	RankEvents
	DaemonEvents
	ClientEvents
	// Warn reports something that the user should know and that ends nothing.
	Warn(text string)
}

// RankEvents is what the starter, the waiters and the readers of ranks report.
type RankEvents interface {
	// ForkDone reports that the start of all ranks is over.
	ForkDone(core.ForkDone)
	// Placed reports where the ranks run. It is called before ForkDone, if at all.
	Placed(core.Placed)
	// MPIFindings reports what a program's file shows about MPI.
	MPIFindings(core.MPIFindings)
	// RankFrame reports a frame that a rank sent.
	RankFrame(core.RankFrame)
	// RankOutput reports a chunk of output. The next one is read after Resume.
	RankOutput(core.RankOutput)
	// RankInputRead reports that a rank has read a part of its input.
	RankInputRead(core.RankInputRead)
	// RankInputClosed reports that a rank has closed its input.
	RankInputClosed(core.RankInputClosed)
	// RankExited reports the death of a rank, after all frames that it sent.
	RankExited(core.RankExited)
	// RankDrained reports that all output of a dead rank was reported.
	RankDrained(core.RankDrained)
	// RankFenced answers Fence.
	RankFenced(core.RankFenced)
	// Respawned answers Restart.
	Respawned(core.Respawned)
}

// DaemonEvents is what the waiters and the readers of daemons report.
type DaemonEvents interface {
	// MemberFrame reports a frame that a member of a session sent.
	MemberFrame(flow.MemberFrame)
	// DaemonOutput reports a chunk of output. The next one is read after Resume.
	DaemonOutput(flow.DaemonOutput)
	// DaemonInputRead reports that a daemon has read a part of its input.
	DaemonInputRead(flow.DaemonInputRead)
	// DaemonInputClosed reports that a daemon has closed its input.
	DaemonInputClosed(flow.DaemonInputClosed)
	// DaemonExited reports the end of a daemon, or that it could not be started.
	DaemonExited(flow.DaemonExited)
}

// ClientEvents is what the readers of the connections of PMI, PMIx and Charm++ report. Each port numbers its
// connections from 1, and no number is used twice.
type ClientEvents interface {
	// PMIReceived reports bytes that a rank wrote to its descriptor, in any pieces.
	PMIReceived(rank job.Slot, words []byte)
	// CallReceived reports bytes that came by a connection to the port of PMI, in any pieces.
	CallReceived(call uint32, words []byte)
	// CallClosed reports the end of such a connection, after all its bytes.
	CallClosed(call uint32)
	// PMIxPlaced reports the node's placement before anything is reported of the first client of PMIx.
	PMIxPlaced(pmixserver.Placement)
	// PMIxReceived reports bytes that came by a connection to the port of PMIx, in any pieces.
	PMIxReceived(call uint32, b []byte)
	// PMIxClosed reports the end of such a connection, after all its bytes.
	PMIxClosed(call uint32)
	// CharmStarting reports that a rank is started as a program of Charm++, before anything else is reported of it.
	CharmStarting(CharmRank)
	// CharmReceived reports bytes that came by a connection of a program of Charm++, in any pieces.
	CharmReceived(call uint32, b []byte)
	// CharmClosed reports the end of such a connection, after all its bytes.
	CharmClosed(call uint32)
	// CharmMuted answers Mute: no output of the rank is reported any more.
	CharmMuted(rank job.Slot)
}
