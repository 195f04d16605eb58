package agent

import (
	"ibrun/bootstrap/core"
	"ibrun/bootstrap/core/flow"
	"ibrun/bootstrap/remote"
)

// Other goroutines report events to the loop by the methods of the interfaces below. There is one interface for each
// kind of sender. The loop implements all of them, and spawn.Events. A method blocks while the queue of the loop is
// full, so the goroutine of the loop itself must not call it. A method drops its event if the loop has ended.

// linkEvents contains the events that the reader of a link reports.
type linkEvents interface {
	// Frame reports a message from the neighbour at the other end of the link.
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
	// ChildFailed reports that the session to a child could not be opened.
	ChildFailed(core.ChildFailed)
	// JoinRefused reports that an agent, to which this agent offered itself as a new parent, keeps its present parent,
	// because that is nearer to the root.
	JoinRefused(core.JoinRefused)
	// NodeSwept completes the effect core.SweepNode: the search of another node for processes that a lost agent has
	// left there has ended or failed.
	NodeSwept(core.NodeSwept)
	// Probed completes the effect core.Probe with the state of the TCP connection of a link, as read from the kernel.
	Probed(core.Probed)
	// Notice reports a line of text for the user from the code that starts sessions (option --verbose).
	Notice(core.Notice)
}

// processEvents contains the events that concern this process and its descendants. The senders are the handlers of
// signals, the reader of the reaper's pipe, the goroutines that kill or examine processes, and timers.
type processEvents interface {
	// Interrupted reports that the root has received a signal, for example SIGINT or SIGCONT.
	Interrupted(core.Interrupted)
	// NodeSignal reports that an agent other than the root has received SIGUSR1 or SIGUSR2, or that its reaper has
	// passed on SIGUSR1, SIGUSR2, SIGCONT or SIGURG. A resource manager that sends these signals to the process that it
	// has started on a node intends them for the ranks.
	NodeSignal(core.NodeSignal)
	// EndRequested reports that an agent other than the root has received SIGHUP, SIGINT or SIGTERM, or that its reaper
	// has passed on SIGTERM.
	EndRequested(core.EndRequested)
	// ReaperLost reports the death of the reaper. The reaper is the process that started this agent, and that kills the
	// agent's descendants if the agent dies.
	ReaperLost(core.ReaperLost)
	// Killed completes the effect core.KillRanks. It lists the processes that could not be killed in time.
	Killed(core.Killed)
	// Swept completes the effect core.Sweep. It lists the processes that could not be killed in time.
	Swept(core.Swept)
	// JobSwept completes the effect core.SweepJob. It has the number of killed processes, and lists those that could
	// not be killed in time.
	JobSwept(core.JobSwept)
	// NodeEmptied completes the effect core.EmptyNode. It lists the processes that could not be killed in time.
	NodeEmptied(core.NodeEmptied)
	// Inspected completes the effect core.Inspect with the answer of this node to a query about its ranks.
	Inspected(core.Inspected)
	// PMIxDue reports that the time allowed for the request with the given tag has expired. The argument call is the
	// number of the PMIx connection that the request came from.
	PMIxDue(call, tag uint32)
}

// terminalEvents contains the events that the reader and the writer of the root's standard streams report.
type terminalEvents interface {
	// StdinRead reports a part of the root's standard input, its end, or a new size of the root's terminal.
	StdinRead(core.StdinRead)
	// Interrupted reports that the user has typed the sequence that ends the job.
	Interrupted(core.Interrupted)
	// Wrote reports that the root has written N bytes of the ranks' output. Labels of lines do not count.
	Wrote(core.Wrote)
	// SinkFailed reports that a write of the ranks' output has failed. No more output is written.
	SinkFailed(core.SinkFailed)
}

// jobEvents contains the events that the readers of the links to the parent job and to spawned jobs report.
type jobEvents interface {
	// JobAnswered reports that all ranks of a spawned job run, or the reason why the job was not started.
	JobAnswered(core.JobAnswered)
	// JobAsked reports a request of a spawned job to the table of named ports (MPI's name service).
	JobAsked(core.JobAsked)
	// JobEnded reports the end of a spawned job.
	JobEnded(core.JobEnded)
	// ParentAnswered reports the parent job's answer to a request that this job sent to its table of named ports (MPI's
	// name service).
	ParentAnswered(core.ParentAnswered)
	// Interrupted reports that the link to the parent job has ended. This ends the job, as SIGTERM to the root does.
	Interrupted(core.Interrupted)
}

// controlEvents contains the requests of clients. A client is a program that uses the control socket, such as ibrun
// ctl, or the CCS port, or it is the tool that launched the job.
type controlEvents interface {
	// Asked sends a query to the nodes of some ranks, for the state or the stacks of the ranks, or to send a signal to
	// them.
	Asked(core.Asked)
	// ResizeAsked requests a change of the number of nodes.
	ResizeAsked(core.ResizeAsked)
	// CCSAsked forwards a request of CCS (Charm++'s client-server protocol) to a Charm++ program.
	CCSAsked(core.CCSAsked)
	// DaemonsAsked requests the start of daemons, which are programs that run on the nodes beside the ranks.
	DaemonsAsked(flow.DaemonsAsked)
	// DaemonsTaken reports that N bytes of its daemons' output were sent to a client.
	DaemonsTaken(flow.DaemonsTaken)
	// DaemonsKept requests that the daemons of a client continue after the client has disconnected. Their output is
	// dropped from then on.
	DaemonsKept(flow.DaemonsKept)
	// DaemonsLeft reports that the client of an order for daemons has disconnected, so that the core kills the daemons.
	DaemonsLeft(flow.DaemonsLeft)
	// DaemonFed forwards input from a client to its daemon, or a new size of its terminal.
	DaemonFed(flow.DaemonFed)
	// SessionAsked requests the start of a session. Its members are daemons that exchange messages with a tool.
	SessionAsked(flow.SessionAsked)
	// SessionSent forwards a piece of a message from a client to member 0 of its session.
	SessionSent(flow.SessionSent)
	// SessionTaken reports that data from member 0 of a session was sent to the client of the session. N is the cost of
	// the data in bytes (rankwire.ToolPiece.Cost).
	SessionTaken(flow.SessionTaken)
	// Interrupted requests the end of the job. Its signal is SIGTERM.
	Interrupted(core.Interrupted)
	// Warn reports a warning for the user.
	Warn(text string)
}
