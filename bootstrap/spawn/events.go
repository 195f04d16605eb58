package spawn

import (
	"ibrun/bootstrap/clients/pmixserver"
	"ibrun/bootstrap/core"
	"ibrun/bootstrap/core/flow"
	"ibrun/internal/job"
)

// Events receives the events that a Set reports. The goroutines of the Set call its methods concurrently. The methods
// may block. Until a method returns, the goroutine that called it does not read from its rank, daemon or connection.
type Events interface {
	RankEvents
	DaemonEvents
	ClientEvents
	// Warn reports a warning for the user. The job continues.
	Warn(text string)
}

// RankEvents contains the events that concern ranks.
type RankEvents interface {
	// ForkDone reports that the start of the ranks has ended: each rank runs, or is listed as a failure.
	ForkDone(core.ForkDone)
	// Placed reports where the ranks run, if the job asks for a report of the binding or the topology. It precedes
	// ForkDone, unless the start of the ranks has timed out.
	Placed(core.Placed)
	// MPIFindings reports the library of MPI, PMIx or Charm++ that a program uses.
	MPIFindings(core.MPIFindings)
	// RankFrame reports a frame that a program of a rank sent to the agent.
	RankFrame(core.RankFrame)
	// RankOutput reports a chunk of a rank's output. The next chunk of the same stream is reported after a call of
	// Set.Resume.
	RankOutput(core.RankOutput)
	// RankInputRead reports that a rank has read N bytes of its standard input.
	RankInputRead(core.RankInputRead)
	// RankInputClosed reports that a rank has closed its standard input.
	RankInputClosed(core.RankInputClosed)
	// RankExited reports the death of a rank, after all frames that it sent.
	RankExited(core.RankExited)
	// RankDrained reports that no more output of a dead rank will be reported.
	RankDrained(core.RankDrained)
	// RankFenced completes a call of Set.Fence. It lists the rank's processes that could not be killed in time.
	RankFenced(core.RankFenced)
	// Respawned completes a call of Set.Restart. Code is 0 if the rank runs again; otherwise Cause is the reason.
	Respawned(core.Respawned)
}

// DaemonEvents contains the events that concern daemons.
type DaemonEvents interface {
	// MemberFrame reports a frame that a member of a tool's session sent to the agent.
	MemberFrame(flow.MemberFrame)
	// DaemonOutput reports a chunk of a daemon's output. The next chunk of the same stream is reported after a call of
	// Daemons.Resume.
	DaemonOutput(flow.DaemonOutput)
	// DaemonInputRead reports that a daemon has read N bytes of its standard input.
	DaemonInputRead(flow.DaemonInputRead)
	// DaemonInputClosed reports that a daemon has closed its standard input.
	DaemonInputClosed(flow.DaemonInputClosed)
	// DaemonExited reports the end of a daemon, after all its output, or that the daemon could not be started.
	DaemonExited(flow.DaemonExited)
}

// ClientEvents contains the events that concern connections of PMI, PMIx and Charm++. The argument call is the number
// of a connection. Each port numbers its connections from 1, and never uses a number again.
type ClientEvents interface {
	// PMIReceived reports bytes that a rank wrote to its descriptor ControlFD. A PMI message may be split over several
	// calls.
	PMIReceived(rank job.Slot, words []byte)
	// CallReceived reports bytes from a connection to the port of PMI. A message may be split over several calls.
	CallReceived(call uint32, words []byte)
	// CallClosed reports the end of a connection to the port of PMI, after all its bytes.
	CallClosed(call uint32)
	// PMIxPlaced reports the placement of the node's ranks. It precedes all events of the first client of PMIx.
	PMIxPlaced(pmixserver.Placement)
	// PMIxReceived reports bytes from a connection to the port of PMIx. A message may be split over several calls.
	PMIxReceived(call uint32, b []byte)
	// PMIxClosed reports the end of a connection to the port of PMIx, after all its bytes.
	PMIxClosed(call uint32)
	// CharmStarting reports that a rank is being started as a Charm++ program. It precedes all other events of the
	// rank.
	CharmStarting(CharmRank)
	// CharmReceived reports bytes from a connection of a Charm++ program. A message may be split over several calls.
	CharmReceived(call uint32, b []byte)
	// CharmClosed reports the end of a connection of a Charm++ program, after all its bytes.
	CharmClosed(call uint32)
	// CharmMuted reports that a call of Set.Mute is complete. No more output of the rank is reported.
	CharmMuted(rank job.Slot)
}
