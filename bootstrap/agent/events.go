package agent

import (
	"ibrun/bootstrap/core"
	"ibrun/bootstrap/core/flow"
	"ibrun/bootstrap/remote"
)

// Other goroutines report events to the loop by the methods of the interfaces below. There is one interface for each
// kind of sender. The loop implements all of them, and spawn.Events. Do not call these methods from the goroutine of
// the loop. They block while the queue of the loop is full, and drop the event if the loop has ended.

// linkEvents contains the events that the reader of a link reports.
type linkEvents interface {
	// Frame reports a message from a neighbour.
	Frame(core.Frame)
	// LinkLost reports the end of a link. It is called after all messages of the link have been reported.
	LinkLost(core.LinkLost)
}

// sessionEvents contains the events that the goroutines that open or examine sessions report.
type sessionEvents interface {
	// SessionUp reports that the session to a child is open. It returns false if the event was dropped because the loop
	// has ended.
	SessionUp(child core.Link, s *remote.Session) bool
	// ChildPhase reports which step the opening of a session has reached.
	ChildPhase(core.ChildPhase)
	// ChildFailed reports that a session could not be opened.
	ChildFailed(core.ChildFailed)
	// JoinRefused reports that an agent has refused to become a child, because its present parent is nearer to the root.
	JoinRefused(core.JoinRefused)
	// NodeSwept reports that the sweep of another node has ended.
	NodeSwept(core.NodeSwept)
	// Probed reports the state of the TCP connection of a link, as read from the kernel.
	Probed(core.Probed)
	// Notice reports a line of text for the user from the starter of sessions.
	Notice(core.Notice)
}

// processEvents contains the events that concern this process and its descendants. The senders are the handlers of
// signals, the reader of the reaper's pipe, the goroutines that kill or examine processes, and timers.
type processEvents interface {
	// Interrupted reports that the root has received a signal.
	Interrupted(core.Interrupted)
	// NodeSignal reports that an agent other than the root has received a signal that is meant for ranks, directly or
	// from its reaper.
	NodeSignal(core.NodeSignal)
	// EndRequested reports that an agent other than the root has received a signal that asks it to end.
	EndRequested(core.EndRequested)
	// ReaperLost reports the death of the reaper.
	ReaperLost(core.ReaperLost)
	// Killed reports the result of core.KillRanks.
	Killed(core.Killed)
	// Swept reports the result of core.Sweep.
	Swept(core.Swept)
	// JobSwept reports the result of core.SweepJob.
	JobSwept(core.JobSwept)
	// NodeEmptied reports the result of core.EmptyNode.
	NodeEmptied(core.NodeEmptied)
	// Inspected reports the result of core.Inspect.
	Inspected(core.Inspected)
	// PMIxDue reports that the timeout of a PMIx client's request has expired.
	PMIxDue(call, tag uint32)
}

// terminalEvents contains the events that the reader and the writer of the root's standard streams report.
type terminalEvents interface {
	// StdinRead reports a part of the standard input, its end, or a new size of the terminal.
	StdinRead(core.StdinRead)
	// Interrupted reports that the user has typed the sequence that ends the job.
	Interrupted(core.Interrupted)
	// Wrote reports how many bytes of the ranks' output were written.
	Wrote(core.Wrote)
	// SinkFailed reports that a write of output has failed. No more output is written.
	SinkFailed(core.SinkFailed)
}

// jobEvents contains the events that the readers of the links to the parent job and to spawned jobs report.
type jobEvents interface {
	// JobAnswered reports that a spawned job runs, or the reason why it was not started.
	JobAnswered(core.JobAnswered)
	// JobAsked reports a request of a spawned job to the table of named ports (MPI's name service).
	JobAsked(core.JobAsked)
	// JobEnded reports the end of a spawned job.
	JobEnded(core.JobEnded)
	// ParentAnswered reports the answer of the parent job to a question about a service.
	ParentAnswered(core.ParentAnswered)
	// Interrupted reports that the parent job has ended. Its signal is SIGTERM.
	Interrupted(core.Interrupted)
}

// controlEvents contains the requests of the clients of the control socket and of the CCS port.
type controlEvents interface {
	// Asked queries the state of ranks.
	Asked(core.Asked)
	// ResizeAsked requests a change of the number of nodes.
	ResizeAsked(core.ResizeAsked)
	// CCSAsked forwards a CCS request to a Charm++ program.
	CCSAsked(core.CCSAsked)
	// DaemonsAsked requests the start of daemons.
	DaemonsAsked(flow.DaemonsAsked)
	// DaemonsTaken reports how many bytes of its daemons' output a client has received.
	DaemonsTaken(flow.DaemonsTaken)
	// DaemonsKept requests that the daemons of a client continue after the client has disconnected.
	DaemonsKept(flow.DaemonsKept)
	// DaemonsLeft reports that the client of an order for daemons has disconnected.
	DaemonsLeft(flow.DaemonsLeft)
	// DaemonFed forwards input to a daemon.
	DaemonFed(flow.DaemonFed)
	// SessionAsked requests the start of a session of a tool.
	SessionAsked(flow.SessionAsked)
	// SessionSent forwards a piece of a message to member 0 of a session.
	SessionSent(flow.SessionSent)
	// SessionTaken reports that a client has received a piece of a message from member 0.
	SessionTaken(flow.SessionTaken)
	// Interrupted requests the end of the job.
	Interrupted(core.Interrupted)
	// Warn reports a warning for the user.
	Warn(text string)
}
