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

// become enters a stage. Only this function writes the stage.
func (c *Core) become(s stage) {
	if c.cfg.Check && !slices.Contains(nextStages[c.stage], s) {
		panic(fmt.Sprintf("stage %d cannot follow stage %d", s, c.stage))
	}
	c.stage = s
	c.below.Launched = c.below.Launched || s >= running
}

// forkState is the state of the ranks of this node at their first start. At the root it is forked from the beginning.
//
//	unforked --Fork--> forking --ForkDone--> forked
type forkState uint8

const (
	unforked forkState = iota
	forking
	forked
)

// fate is what this agent does about the ranks of its node. It never becomes less.
type fate uint8

const (
	free      fate = iota // they run as long as they want
	toldToEnd             // they were told to end
	abandoned             // those that live cannot be ended, and what becomes of them counts no more
)

// sweepState is the state of the sweep after this node's ranks. What never ran left nothing to sweep.
//
//	unswept --nothing of the subtree is left--> sweeping --Swept--> swept
//	unswept --no rank was started--> swept
type sweepState uint8

const (
	unswept sweepState = iota
	sweeping
	swept
)

// lookState is the state of the question that the root asks by itself before it ends a job.
//
//	notLooked --the end is due--> asking --the question is out--> looking --answer--> looked
//	asking --an answer at once--> looked
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
	early    []Event // that wait until this subtree is final
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

// starts counts the launch.
type starts struct {
	next         int // first child not started
	inFlight     int
	reported     int // children that are ready or gone
	up           uint32
	failed       uint32
	readied      bool
	ranks        forkState
	begunAt      time.Duration // time of the order to start the ranks
	slowReported time.Duration // when late sessions were last named; 0: never
}

// clock is the agent's view of time.
type clock struct {
	up        life
	linked    bool          // this agent has a link to its parent
	next      time.Duration // time at which the timer expires; 0 means no timer
	stopped   bool          // the job is stopped: an agent's silence means nothing
	stoppedAt time.Duration // since when
	stops     uint32        // number of times that the job was stopped
	fixed     time.Duration // additional deadline besides the period; 0 means none
}

// life is the state of one link.
type life struct {
	received, sent time.Duration
	asked          bool          // a Probe is out
	acked          uint64        // at the last Probed
	stuck          time.Duration // when something was first seen to wait after that; 0: nothing does
}

// ranks are this node's own.
type ranks struct {
	node     job.Node
	index    job.NodeIndex
	ends     []job.StatusRun
	reported weight // the heaviest failure of a rank that has been sent up
	awaited  bool   // so has that of one that its peers wait for, which ends any job
	fate     fate
	stopAt   time.Duration // when ranks that are to stop are made to; 0: never
	locals   []local
}

// local is what the last program of a rank has sent that counts once, or so often only.
type local struct {
	tallied bool
	notices int
	aborted bool
	waits   time.Duration // since it has joined its last collective
}

// output is output of ranks on its way to the root.
type output struct {
	queue      []chunk
	head       int
	credit     int // bytes that may be passed on
	window     int // credit each child starts with
	discarding bool
	truncated  uint64
}

// chunk is output on its way up; from is Up for this node's own ranks.
type chunk struct {
	from   Link
	rank   job.Slot
	stream uint8
	data   []byte
	at     uint64 // where in its stream it begins
	known  int    // bytes that came with it, and were here before
	again  bool   // it was sent before
}

// input is standard input on its way to the ranks that read it. It goes to
// all readers in step: the slowest one sets the pace.
type input struct {
	queue    []wire.Stdin
	children []Link           // children with readers
	own      map[job.Slot]int // readers of this node: bytes each can take
	owed     int              // bytes passed on and not yet reported as room
	eof      bool
	room     int  // bytes that the parent may send
	over     bool // it has sent the end
}

// finish is the end of this subtree.
type finish struct {
	killAt        time.Duration // when the grace is over; 0: not ending
	killed        bool
	giveUpAt      time.Duration // when children that do not report are given up
	leaveAt       time.Duration // time at which this agent leaves because of the signal leaveBy; 0 means never
	leaveBy       uint8
	sweep         sweepState
	childrenEnded int // children that are gone
	ends          []job.StatusRun
	trunc         uint64
	mpi           job.MPIFindings
}

// root is the policy's state.
type root struct {
	out       Outcome
	timeoutAt time.Duration
	settleAt  time.Duration
	cause     weight        // of the failure that is the cause
	blameAt   time.Duration // when the user is told of it; 0: there is none, or the user has been told
	waitAt    time.Duration
	deafAt    time.Duration
	asked     int // interrupts so far
	stop      stopState
	stopBy    time.Duration // when children that do not confirm a stop are not waited for any more
	offspring offspring
	settled   int // nodes
	told      []told
	asking    asking
	growing   growing
}

// told records that the node of an agent told the agent to end, and the time at which the root learned this.
type told struct {
	node job.NodeIndex
	at   time.Duration
}

// Job control. When the terminal stops a job (SIGTSTP), every agent keeps the
// job on hold until SIGCONT: its ranks are stopped, and an agent that is silent
// is not given up, since the root is stopped, too. The agents run on, so a root that is
// killed meanwhile, or whose host dies, still ends everything.
//
// The root must not stop before its children know, or they would give it up. So
// they confirm the hold with a Signal upwards:
//
//	none --TSTP--> wanted --launch complete--> asked --all confirm, or holdPatience--> Suspend, none
//
// A stop that comes during the launch waits: sessions that come up have deadlines,
// and ranks that are started are to be stopped as well.
type stopState uint8

const (
	stopNone stopState = iota
	stopRequested
	stopAsked
)

// ownLook is the question that the root asks by itself, once.
type ownLook struct {
	state  lookState
	signal uint8 // that ends the job then; 0: its time is up
}

// asking is what the root keeps of open questions.
type asking struct {
	tickets map[uint32]uint32 // by the number of a query: the driver's
	own     ownLook
}
