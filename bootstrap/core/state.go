package core

import (
	"fmt"
	"slices"
	"time"

	"ibrun/bootstrap/core/collective"
	"ibrun/bootstrap/core/flow"
	"ibrun/bootstrap/core/lookup"
	"ibrun/bootstrap/core/queries"
	"ibrun/bootstrap/core/queue"
	"ibrun/bootstrap/core/recovery"
	"ibrun/bootstrap/core/subtree"
	"ibrun/bootstrap/tree"
	"ibrun/bootstrap/wire"
	"ibrun/internal/job"
)

// The stages of an agent.
//
//	idle --Launch--> launching --all children settled--> running
//	launching, running --End, parent lost--> ending --> done
//	idle --End, or a sweep for another root--> done
//	running --all ranks have ended--> done
//	any stage --this agent leaves because of a signal--> done
type stage uint8

const (
	idle stage = iota
	launching
	running
	ending
	done
)

// nextStages lists the stages that can follow each stage.
var nextStages = [...][]stage{
	idle:      {launching, done},
	launching: {running, ending, done},
	running:   {ending, done},
	ending:    {done},
	done:      nil,
}

// become enters stage s. All changes of c.stage are made here. With Config.Check it panics if s cannot follow the
// present stage.
func (c *Core) become(s stage) {
	if c.cfg.Check && !slices.Contains(nextStages[c.stage], s) {
		panic(fmt.Sprintf("stage %d cannot follow stage %d", s, c.stage))
	}
	c.stage = s
	c.below.Launched = c.below.Launched || s >= running
}

// forkState is the state of the first start of this node's ranks. The root has no ranks, and is forked from its launch
// on.
//
//	unforked --Fork--> forking --ForkDone--> forked
type forkState uint8

const (
	unforked forkState = iota
	forking
	forked
)

// fate says how far this agent has gone to end the ranks of its node. It never decreases.
type fate uint8

const (
	free      fate = iota // the ranks run until they exit
	toldToEnd             // the ranks were sent a signal to end
	abandoned             // the remaining ranks have survived SIGKILL, and their later events are ignored
)

// sweepState is the state of the search for processes that this node's ranks have left behind. If no rank was ever
// started, the state remains unswept when the agent exits.
//
//	unswept --this node's ranks have ended, and the subtree has ended or the node leaves--> sweeping --Swept--> swept
//	unswept, sweeping --processes survive SIGKILL--> swept
type sweepState uint8

const (
	unswept sweepState = iota
	sweeping
	swept
)

// lookState is the state of the question what the ranks do, which the root asks on its own before it ends a job.
//
//	notLooked --the end is due--> askingNow --question sent--> looking --answer--> looked
//	askingNow --answer without delay--> looked
type lookState uint8

const (
	notLooked lookState = iota
	askingNow
	looking
	looked
)

// Core is one agent.
type Core struct {
	cfg   Config
	now   time.Duration
	out   []Effect
	stage stage
	job   *job.Job
	level int
	shape tree.Shape

	clock    clock
	children []branch
	starts   starts
	queue    queue.Queue
	below    subtree.Subtree
	early    []Event // events that wait until the nodes of this subtree have their final numbers
	times    times
	ranks    ranks
	managed  managed
	flow     output
	input    input
	finish   finish
	root     root

	recovery recovery.Machine
	repair   repairing

	lookups     lookup.Lookups
	collectives collective.Collectives
	bulk        lookup.Bulk // bulk fetches of values
	tables      lookup.Bulk // bulk fetches of addresses
	pairs       lookup.Pairs
	queries     queries.Queries
	tools       flow.Tools
	resizing    resizing
	names       lookup.Names // used at the root only
	tally       job.Tally    // counts of the core itself; the method counted adds those of its components
}

// starts is the progress of the launch of this subtree.
type starts struct {
	next         int // first child not started
	inFlight     int
	reported     int    // children that the launch does not wait for: they are ready or have ended
	up           uint32 // agents of the subtree that are up, this one included
	failed       uint32 // nodes of the subtree that were not started
	readied      bool
	ranks        forkState
	begunAt      time.Duration // time of the order to start the ranks
	slowReported time.Duration // time of the last report of slow sessions; 0 means never
}

// clock is the agent's view of time.
type clock struct {
	up        life
	linked    bool          // this agent has a link to its parent
	next      time.Duration // time at which the timer expires; 0 means no timer
	stopped   bool          // the job is stopped, so an agent that is silent is not considered lost
	stoppedAt time.Duration // time of the last stop
	stops     uint32        // number of times that the job was stopped
	fixed     time.Duration // additional deadline besides the period; 0 means none
}

// life is the state of one link.
type life struct {
	received, sent time.Duration
	asked          bool          // a Probe is unanswered
	acked          uint64        // value from the last Probed
	stuck          time.Duration // time at which a Probed first showed unacknowledged data since; 0 if there is none
}

// ranks is the core's state of the ranks of this node.
type ranks struct {
	node     job.Node
	index    job.NodeIndex
	ends     []job.StatusRun
	reported weight // weight of the heaviest failure of a rank that was reported to the parent
	awaited  bool   // a failure of a rank for which its peers wait was reported; it ends the job
	fate     fate
	stopAt   time.Duration // time of SIGSTOP to the ranks, after they were sent SIGTSTP; 0 means never
	locals   []local
}

// local records what the newest program of a rank has sent, as far as it may be sent only once or a few times.
type local struct {
	tallied bool
	notices int
	aborted bool
	waits   time.Duration // time at which the rank joined its last collective
}

// output is the state of rank output that this agent forwards to the root.
type output struct {
	queue      []chunk
	head       int
	credit     int // bytes that this agent may still send to its parent, or write at the root
	window     int // bytes of credit that each child starts with
	discarding bool
	truncated  uint64
}

// chunk is output of one rank. from is the child that sent it, or Up if the rank runs on this node.
type chunk struct {
	from   Link
	rank   job.Slot
	stream uint8
	data   []byte
	at     uint64 // offset in the stream of the rank at which data begins
	known  int    // bytes of the same message that had come before and are not in data
	again  bool   // data was sent to a former parent before
}

// input is the state of standard input that this agent forwards to the ranks that read it. A piece is passed on when
// all readers have room for it, so the slowest one determines the speed.
type input struct {
	queue    []wire.Stdin
	children []Link           // children with readers
	own      map[job.Slot]int // readers of this node, with the bytes that each can accept
	owed     int              // bytes passed on for which no room was granted yet
	eof      bool             // the end of input was passed on
	room     int              // bytes that the parent may still send
	over     bool             // the end of input has come
}

// finish is the state of the end of this subtree.
type finish struct {
	killAt        time.Duration // time at which ranks are killed; 0 unless the job ends
	killed        bool
	giveUpAt      time.Duration // time at which the wait for reports of children ends
	leaveAt       time.Duration // time at which this agent leaves because of the signal leaveBy; 0 means never
	leaveBy       uint8
	sweep         sweepState
	childrenEnded int // number of children that have ended
	ends          []job.StatusRun
	trunc         uint64
	mpi           job.MPIFindings
}

// root is the state that only the root has.
type root struct {
	out       Outcome
	timeoutAt time.Duration
	settleAt  time.Duration
	cause     weight        // weight of the failure that is considered the cause of the job's failure
	blameAt   time.Duration // time at which the user is told the cause; 0 if there is none or the user has been told
	waitAt    time.Duration
	deafAt    time.Duration
	asked     int // number of interrupts so far
	stop      stopState
	stopBy    time.Duration // time at which the wait for children to confirm a stop ends
	offspring offspring
	settled   int // number of nodes that are ready, for reports of progress
	told      []told
	asking    asking
	growing   growing
}

// told records that the node of an agent told the agent to end, and the time at which the root learned this.
type told struct {
	node job.NodeIndex
	at   time.Duration
}

// stopState is the state of a stop of the job at the root. When the terminal stops a job (SIGTSTP), every agent stops
// its ranks until SIGCONT. Until then no agent considers a silent agent lost, because the root is stopped, too. The
// agents themselves continue to run. If the root is killed meanwhile, or its host fails, they still end the job.
//
// The root must not suspend itself before its children know of the stop, or they would consider it lost. The children
// confirm the stop with a Signal to the root:
//
//	stopNone --SIGTSTP--> stopRequested --launch complete--> stopAsked
//	stopAsked --all children confirm, or holdPatience is over--> Suspend, stopNone
//
// A stop that is requested during the launch is delayed until the launch is complete, because sessions have deadlines,
// and ranks that are being started must be stopped, too.
type stopState uint8

const (
	stopNone stopState = iota
	stopRequested
	stopAsked
)

// ownLook is the question that the root asks on its own, at most once.
type ownLook struct {
	state  lookState
	signal uint8 // signal that ends the job after the answer; 0 if the time limit does
}

// asking is the root's state of unanswered questions.
type asking struct {
	tickets map[uint32]uint32 // numbers that the driver chose for questions, keyed by query ID
	own     ownLook
}
