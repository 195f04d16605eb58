// Package core holds the decisions of one agent. A Core is a plain value that
// is fed events and answers with effects; it does no I/O, reads no clock,
// starts no goroutine, takes no lock and draws no random number, so the same
// code runs under the real driver and, 65,536 times over, in a simulation.
//
// The root is an agent without ranks of its own that holds the policy; every
// other agent reports facts and does what it is told. An agent that loses its
// parent ends its part of the job by itself.
//
// The core itself handles the launch and the end of a job, and the links of an agent. The table of package child gives
// the actions for each child, and branch.go performs them. Most other functions of an agent are in components, which
// are packages below this one or types in them: queue, recovery, lookup (with bulk, pairs and names), collective,
// queries and flow. Each component has its own state and decides about the events that the core passes to it. The
// components share the state of ranks and children in subtree, which the core and recovery change. verify.go checks
// each frame first, and asks the component that will receive it. Then order.go, step.go or rankframe.go passes the
// frame to its component. recover.go performs the effects of recovery, and parts.go those of the other components.
package core

import (
	"time"

	"ibrun/bootstrap/core/collective"
	"ibrun/bootstrap/core/flow"
	"ibrun/bootstrap/core/lookup"
	"ibrun/bootstrap/core/queries"
	"ibrun/bootstrap/core/recovery"
	"ibrun/bootstrap/tree"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// Config has the parameters of an agent that are known before its first event.
type Config struct {
	Root   bool
	Host   string // host name of this agent, for reports
	Path   string // address at which other agents reach this node; empty if unknown
	Here   int    // in the root: index of the node that is this machine, or -1
	Window int    // initial number of concurrent sessions if the job does not set one; 0 means tree.Window
	Cores  int    // processors that sessions may use; 0 keeps Window constant
	Check  bool   // panic if an invariant does not hold; set by tests
	Most   int    // maximum number of concurrent sessions; 0 means tree.MostWindow
	Policy Policy // used by the root only

	// Join merges the parcels of a barrier before they are forwarded. It must be a pure function. If Join is nil, the
	// parcels are forwarded unchanged.
	Join       func(rankwire.Parcels) rankwire.Parcels
	HasSpawner bool // in the root: a rank of another job has spawned this job; that job's root has the MPI names
}

// Policy is what the root does about failures.
type Policy struct {
	KillOnBad bool          // a rank that fails ends the job
	Timeout   time.Duration // of the whole job; 0: none
	Wait      time.Duration // after the first end of a node's ranks; 0: for ever
	Spares    job.Nodes     // that replace dead nodes, in order
	SpareHere string        // the one of them that is this machine, or empty
	MinNodes  int           // that a job must have if nodes are dead and spares used up; 0: all
	// MaxRestarts is how many restarts there may be within any time RestartsWithin; 0: the whole job.
	MaxRestarts    int
	RestartsWithin time.Duration
	RepairAsked    bool // the user wants a job that uses PMI to go on without the ranks of a lost node
}

// New returns an agent that has handled no event yet.
func New(cfg Config) *Core {
	if cfg.Window == 0 {
		cfg.Window = tree.Window
	}
	if cfg.Most == 0 {
		cfg.Most = tree.MostWindow
	}
	c := &Core{cfg: cfg}
	c.below.Root = cfg.Root
	c.lookups = lookup.New(&c.below)
	c.collectives = collective.New(&c.below, cfg.Join)
	c.bulk, c.tables = lookup.NewBulk(&c.below), lookup.NewBulk(&c.below)
	c.pairs = lookup.NewPairs(&c.below.Own)
	c.queries = queries.New(&c.below)
	c.tools = flow.New(&c.below)
	c.names = lookup.NewNames(cfg.HasSpawner)
	c.recovery = recovery.New(&c.below)
	c.clock.linked = !cfg.Root
	return c
}

func (c *Core) do(e Effect) { c.out = append(c.out, e) }

// send sends m to a neighbour. If there is no link to the neighbour, nothing is sent.
func (c *Core) send(to Link, m frame.Message) {
	l := c.life(to)
	if c.repairs() {
		c.remember(to, m)
	}
	if !c.hasLink(to) || c.holdsBack(to, m) {
		return
	}
	l.sent = c.now
	c.do(Send{To: to, Msg: m})
}
