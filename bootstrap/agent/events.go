package agent

import (
	"ibrun/bootstrap/core"
	"ibrun/bootstrap/core/flow"
	"ibrun/bootstrap/remote"
)

// The interfaces below are what other goroutines report to the loop, one for each kind of sender. The loop implements
// them, and spawn.Events. Any goroutine but the loop's own may call these methods. They block while the queue of the
// loop is full, and drop the event if the loop has ended.

// linkEvents is what the reader of a link reports.
type linkEvents interface {
	// Frame reports a message of a neighbour.
	Frame(core.Frame)
	// LinkLost reports the end of a link, after all its messages.
	LinkLost(core.LinkLost)
}

// sessionEvents is what the goroutines that open or examine sessions report.
type sessionEvents interface {
	// SessionUp reports that the session to a child is open. It returns false if the loop has ended.
	SessionUp(child core.Link, s *remote.Session) bool
	// ChildPhase reports what a session that is being opened waits for.
	ChildPhase(core.ChildPhase)
	// ChildFailed reports that a session could not be opened.
	ChildFailed(core.ChildFailed)
	// JoinRefused reports that an agent keeps its parent, which is nearer to the root.
	JoinRefused(core.JoinRefused)
	// NodeSwept reports the end of a sweep of another node.
	NodeSwept(core.NodeSwept)
	// Probed reports what the kernel knows of a link.
	Probed(core.Probed)
	// Notice reports a line of the starter of sessions for the user.
	Notice(core.Notice)
}

// processEvents is what reports of this process and its descendants: the handlers of signals, the reader of the
// reaper's pipe, and the goroutines that kill or examine processes.
type processEvents interface {
	// Interrupted reports a signal, or a request like a signal, to the root.
	Interrupted(core.Interrupted)
	// NodeSignal reports a signal to another agent than the root that the ranks of its node are to get.
	NodeSignal(core.NodeSignal)
	// EndRequested reports a signal to another agent than the root that asks it to end.
	EndRequested(core.EndRequested)
	// ReaperLost reports the death of the reaper.
	ReaperLost(core.ReaperLost)
	// Killed answers core.KillRanks.
	Killed(core.Killed)
	// Swept answers core.Sweep.
	Swept(core.Swept)
	// JobSwept answers core.SweepJob.
	JobSwept(core.JobSwept)
	// NodeEmptied answers core.EmptyNode.
	NodeEmptied(core.NodeEmptied)
	// Inspected answers core.Inspect.
	Inspected(core.Inspected)
	// PMIxDue reports that the time of a request of a PMIx client is up.
	PMIxDue(call, tag uint32)
}

// terminalEvents is what the reader and the writer of the root's standard streams report.
type terminalEvents interface {
	// StdinRead reports a part of the input, its end, or a new size of the terminal.
	StdinRead(core.StdinRead)
	// Interrupted reports that the user has typed the sequence that ends the job.
	Interrupted(core.Interrupted)
	// Wrote reports that output was written.
	Wrote(core.Wrote)
	// SinkFailed reports that output can be written no more.
	SinkFailed(core.SinkFailed)
}

// jobEvents is what the readers of the links to related jobs report.
type jobEvents interface {
	// JobAnswered reports that a spawned job runs, or why it does not.
	JobAnswered(core.JobAnswered)
	// JobAsked reports a question of a spawned job about a service.
	JobAsked(core.JobAsked)
	// JobEnded reports the end of a spawned job.
	JobEnded(core.JobEnded)
	// ParentAnswered reports the answer of the job that has spawned this one.
	ParentAnswered(core.ParentAnswered)
	// Interrupted reports that the job that has spawned this one has ended.
	Interrupted(core.Interrupted)
}

// controlEvents is what the clients of the control socket and of the CCS port ask for.
type controlEvents interface {
	// Asked asks nodes about their ranks.
	Asked(core.Asked)
	// ResizeAsked asks for another number of nodes.
	ResizeAsked(core.ResizeAsked)
	// CCSAsked passes on a request to a program of Charm++.
	CCSAsked(core.CCSAsked)
	// DaemonsAsked asks for daemons.
	DaemonsAsked(flow.DaemonsAsked)
	// DaemonsTaken reports that a client has taken output of its daemons.
	DaemonsTaken(flow.DaemonsTaken)
	// DaemonsKept lets the daemons of a client outlive it.
	DaemonsKept(flow.DaemonsKept)
	// DaemonsLeft reports that a client has left its daemons.
	DaemonsLeft(flow.DaemonsLeft)
	// DaemonFed passes on input of a daemon.
	DaemonFed(flow.DaemonFed)
	// SessionAsked asks for a session of a tool.
	SessionAsked(flow.SessionAsked)
	// SessionSent passes on a piece of a message to member 0 of a session.
	SessionSent(flow.SessionSent)
	// SessionTaken reports that a client has taken a piece of a message.
	SessionTaken(flow.SessionTaken)
	// Interrupted asks for the end of the job.
	Interrupted(core.Interrupted)
	// Warn reports something that the user should know.
	Warn(text string)
}
