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

// stage is the stage of an agent in the life of its job.
//
//	idle --Launch--> launching --all children settled--> running
//	launching, running --End, parent lost--> ending --> done
//	idle --End, a signal to the root, or the result of a SweepJob--> done
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

// become enters stage s. All changes of c.stage are made here. If Config.Check is set, become panics if s cannot follow
// the present stage.
func (c *Core) become(s stage) {
	if c.cfg.Check && !slices.Contains(nextStages[c.stage], s) {
		panic(fmt.Sprintf("stage %d cannot follow stage %d", s, c.stage))
	}
	c.stage = s
	c.below.Launched = c.below.Launched || s >= running
}

// forkState is the state of the first start of this node's ranks. The root has no ranks, and its state is forked from
// its launch on.
//
//	unforked --Fork--> forking --ForkDone--> forked
type forkState uint8

const (
	unforked forkState = iota
	forking
	forked
)

// fate is the last step that this agent has taken to end the ranks of its node. The steps are in ascending order.
type fate uint8

const (
	free      fate = iota // the ranks run until they exit
	toldToEnd             // a signal to end was sent to the ranks
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

// lookState is the state of the query by which the root finds out which ranks wait for which others, before it ends a
// job by SIGQUIT or because of its time limit.
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

// Core is the state of one agent. It performs no input or output: Step applies events and returns effects.
type Core struct {
	cfg   Config
	now   time.Duration // time of the present Step
	out   []Effect      // effects of the present Step
	stage stage
	job   *job.Job // nil before Launch
	level int      // level of this agent in the tree; 0 is the root
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
	bulk        lookup.Bulk // bulk fetches of the values that ranks have put for PMI
	tables      lookup.Bulk // bulk fetches of the addresses of ranks
	pairs       lookup.Pairs
	queries     queries.Queries
	tools       flow.Tools
	resizing    resizing
	names       lookup.Names // used at the root only
	tally       job.Tally    // counts of the core itself; the method counted adds those of its components
}

// starts is the progress of the launch of this subtree.
type starts struct {
	next         int    // index of the first child whose session was not requested yet
	inFlight     int    // number of children whose session is being opened, which the window limits
	reported     int    // number of children that are ready or have ended, for which the launch does not wait
	up           uint32 // agents of the subtree that are up, this one included
	failed       uint32 // nodes of the subtree that were not started
	readied      bool   // the launch of this subtree is complete, which was reported to the parent
	ranks        forkState
	begunAt      time.Duration // time of the Fork effect
	slowReported time.Duration // time of the last report of slow sessions; 0 means never
}

// clock is the agent's view of time.
type clock struct {
	up        life          // signs of life on the link to the parent
	linked    bool          // this agent has a link to its parent, from which it accepts messages
	next      time.Duration // time at which the timer expires; 0 means no timer
	stopped   bool          // the job is stopped, so an agent that is silent is not considered lost
	stoppedAt time.Duration // time of the last stop
	stops     uint32        // number of times that the job was stopped
	fixed     time.Duration // earliest time requested by wakeAt, besides the regular period; 0 means none
}

// life records signs of life on one link, by which a lost neighbour is detected.
type life struct {
	received, sent time.Duration // times of the last message in each direction
	asked          bool          // the driver has not answered the last Probe yet
	acked          uint64        // field Acked of the last Probed event
	stuck          time.Duration // time of the Probed event since which data has waited; 0 means none
}

// ranks is the core's state of the ranks of this node.
type ranks struct {
	node     job.Node
	index    job.NodeIndex
	ends     []job.StatusRun // how ranks have ended, in the order of their ends
	reported weight          // weight of the heaviest failure of a rank that was reported to the parent
	awaited  bool            // a failure of a rank for which other ranks wait was reported, which ends the job
	fate     fate
	stopAt   time.Duration // time at which the ranks get SIGSTOP, after they were sent SIGTSTP; 0 means never
	locals   []local       // one for each rank of this node, in the order of slots
}

// local records which messages the newest program of a rank has sent.
type local struct {
	tallied bool          // the program has sent its Tally, of which only the first one is counted
	notices int           // number of Notices that the program has sent; only the first maxNotices are shown
	aborted bool          // the program has sent Abort
	waits   time.Duration // time at which the rank joined its last collective
}

// output is the state of rank output that this agent forwards to its parent, or writes if it is the root.
type output struct {
	queue      []chunk
	head       int    // index in queue of the oldest chunk that was not passed on
	credit     int    // bytes that this agent may still send to its parent, or write at the root
	window     int    // bytes of credit with which each child starts
	discarding bool   // output is dropped
	truncated  uint64 // bytes of output that this agent has dropped
}

// chunk is a piece of the output of one rank.
type chunk struct {
	from   Link // child that has sent it, or Up if the rank runs on this node
	rank   job.Slot
	stream uint8 // 1 is standard output, 2 is standard error
	data   []byte
	at     uint64 // offset in the stream of the rank at which data begins
	known  int    // bytes of the message that are not in data, because a lost child had already sent them
	again  bool   // data was already sent to a former parent
}

// input is the state of standard input that this agent forwards to the ranks that read it. A piece is passed on when
// all readers have room for it, so the slowest one determines the speed.
type input struct {
	queue    []wire.Stdin
	children []Link           // children with readers
	own      map[job.Slot]int // ranks of this node that read input, with the bytes that each can accept
	owed     int              // bytes that were passed on, but for which the source has no new credit yet
	eof      bool             // the end of input was passed on
	room     int              // bytes that the parent may still send
	over     bool             // the end of input has come from the parent
}

// finish is the state of the end of this subtree.
type finish struct {
	killAt        time.Duration // time at which ranks are killed; 0 unless the job ends
	killed        bool          // the ranks of this node were killed
	giveUpAt      time.Duration // time at which the wait for reports of children ends
	leaveAt       time.Duration // time at which this agent leaves because of the signal leaveBy; 0 means never
	leaveBy       uint8         // number of this signal
	sweep         sweepState
	childrenEnded int             // number of children that have ended
	ends          []job.StatusRun // how the ranks of ended children have ended, or that they never ran
	trunc         uint64          // bytes of output that ended children have dropped or that were lost
	mpi           job.MPIFindings // findings of this subtree
}

// root is the state that only the root has.
type root struct {
	out       Outcome
	timeoutAt time.Duration // time at which the time limit of the job expires; 0 means never
	settleAt  time.Duration // time at which the job ends because a node could not be started; 0 means never
	cause     weight        // weight of the failure that is considered the cause of the job's failure
	blameAt   time.Duration // time at which the user is told the cause; 0 if there is none or the user has been told
	waitAt    time.Duration // time at which the job ends because of -W; 0 means never
	deafAt    time.Duration // time from which output is dropped while the job ends after an interrupt; 0 means never
	asked     int           // number of interrupts that ask for the end of the job
	stop      stopState
	stopBy    time.Duration // time at which the wait for children to confirm a stop ends
	offspring offspring
	settled   int    // number of nodes in the last Progress report
	told      []told // agents that were told to end recently, with at most one entry for each node
	asking    asking
	growing   growing
}

// told records that an agent was told to end by a signal on its node, and when the root has learned this. node is the
// node of the agent.
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

// ownLook is the query that the root sends without a request of a caller, at most once. See lookState.
type ownLook struct {
	state  lookState
	signal uint8 // signal that ends the job after the answer; 0 if the time limit ends it
}

// asking is the root's state of queries about ranks that were not answered yet.
type asking struct {
	tickets map[uint32]uint32 // IDs that the driver has chosen for the requests of callers, keyed by query ID
	own     ownLook
}
