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

// Config is what an agent knows before its first event.
type Config struct {
	Root   bool
	Host   string // this agent's host, as named in reports
	Path   string // address that this node is reached by, or empty
	Here   int    // root: index of the node that is this machine; -1: none
	Window int    // sessions in flight when the job leaves the number to us and nothing is measured; 0: 16
	Cores  int    // processors that sessions may use; 0: the window stays as it is
	Check  bool   // panic if an invariant does not hold; set by tests
	Most   int    // maximum number of concurrent sessions; 0 means tree.MostWindow
	Policy Policy // root

	// Join makes one of what the parts of a Barrier carry, before it goes on;
	// nil: parcels go on as they came. It must be pure.
	Join       func(rankwire.Parcels) rankwire.Parcels
	HasSpawner bool // root: by a rank of another job, whose root has the names
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

// New makes an agent that waits for its first event.
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

// send puts a message on a link, if the link is there.
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
