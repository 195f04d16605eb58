package core

import (
	"ibrun/bootstrap/core/daemons"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/rankwire"
)

// Standard input of a daemon, which stands beside one rank (docs/dev/decisions/0026-gdb-pipe-overview.md).

// DaemonFed is what a caller sends to its daemon. The caller keeps to the credit of SessionRoom,
// and begins with daemons.InputCredit.
type DaemonFed struct {
	ID uint32
	wire.Stdin
}

// DaemonInputRead says that the daemon of an order has taken N bytes.
type DaemonInputRead struct{ ID, N uint32 }

// DaemonInputClosed says that the daemon of an order reads no more.
type DaemonInputClosed struct{ ID uint32 }

// FeedDaemon gives input to the daemon of an order. The driver answers DaemonInputRead or
// DaemonInputClosed.
type FeedDaemon struct {
	ID uint32
	wire.Stdin
}

func (DaemonFed) event()         {}
func (DaemonInputRead) event()   {}
func (DaemonInputClosed) event() {}
func (FeedDaemon) effect()       {}

func (c *Core) daemonInput(ev Event) {
	switch ev := ev.(type) {
	case DaemonFed:
		c.feedDaemon(c.root.daemons.of(ev.ID), ev.Stdin)
	case DaemonInputRead:
		c.doDaemons(c.daemons.Taken(ev.ID, int(ev.N)))
	case DaemonInputClosed:
		c.doDaemons(c.daemons.Deaf(ev.ID))
	}
}

func (c *Core) feedDaemon(id uint32, in wire.Stdin) {
	c.doDaemons(c.daemons.Feed(id, daemons.Input(in)))
}

// askReader begins the order of a daemon that reads, beside one rank.
func (c *Core) askReader(ev DaemonsAsked) {
	node := wire.NodeSpan{First: c.job.Layout.NodeOf(ev.OfRank), Count: 1}
	c.orderDaemons(wire.Daemons{ID: c.ticketed(ev.ID), PerRank: true, Nodes: wire.NewNodeSpans(node),
		Argv: rankwire.NewStrings(ev.Argv...), Credit: daemons.CallerCredit, Input: ev.Input, OfRank: ev.OfRank,
		Window: ev.Window})
}

// reachesItsRank reports whether an order of a daemon that reads is for the node of its rank; one of others
// is for any.
func (c *Core) reachesItsRank(m wire.Daemons) bool {
	if m.Input == wire.ReadsNothing {
		return true
	}
	for s := range m.Nodes.All() {
		return uint32(m.OfRank) < c.job.Layout.Ranks() && s == wire.NodeSpan{First: c.job.Layout.NodeOf(m.OfRank), Count: 1}
	}
	return false
}
