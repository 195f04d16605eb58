package core

import (
	"fmt"
	"slices"

	"ibrun/bootstrap/core/child"
	"ibrun/bootstrap/core/daemons"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// Daemons of a job that runs (docs/dev/decisions/0028-daemons.md). Package daemons decides about their
// output and their ends; here is where an order goes.

// DaemonsAsked is a caller's order, at the root: one daemon on each node, or on those of some hosts,
// or one beside each rank there, or the one beside a rank that reads what the caller sends. ID is the
// driver's, and not 0. It is answered by DaemonsPrinted, and once by DaemonsOver.
type DaemonsAsked struct {
	ID      uint32
	PerRank bool
	Hosts   []string // none: all
	Argv    []string

	Input  wire.DaemonInputKind // none: OfRank and Window mean nothing
	OfRank job.Slot
	Window job.Window
}

// DaemonsTaken says that a caller has taken N bytes.
type DaemonsTaken struct{ ID, N uint32 }

// DaemonsLeft says that a caller is gone.
type DaemonsLeft struct{ ID uint32 }

// DaemonOutput is what a daemon of this node wrote. Its reader waits for ResumeDaemon.
type DaemonOutput struct{ wire.DaemonOutput }

// DaemonExited is the end of a daemon of this node, or why it did not start. No output follows.
type DaemonExited struct {
	ID, Number uint32
	Status     job.Status
	Cause      string
}

// StartDaemons starts daemons on this node. The driver answers DaemonExited for each.
type StartDaemons struct {
	ID      uint32
	PerRank bool
	Argv    []string
	Number  uint32     // of the one of the node
	Place   uint32     // of the node among those that are meant
	Ranks   []job.Slot // of this node that run, or the one that it is beside
	Input   wire.DaemonInputKind
	Window  job.Window

	// Of a session: members from First on, in place of one.
	First job.Slot
	Count uint32
	Size  uint32 // of all members; 0: no session
	Env   []string
}

// KillDaemons kills those of an order, with all that they have started.
type KillDaemons struct{ ID uint32 }

// ResumeDaemon lets the reader of a daemon's stream go on.
type ResumeDaemon struct {
	ID, Number uint32
	Stream     uint8
}

// DaemonsPrinted is output for a caller. The driver answers DaemonsTaken.
type DaemonsPrinted struct{ wire.DaemonOutput }

// DaemonsOver tells a caller how its daemons have ended. Refused: why none was started.
type DaemonsOver struct {
	wire.DaemonsEnded
	Refused string
}

func (DaemonsAsked) event()    {}
func (DaemonsTaken) event()    {}
func (DaemonsLeft) event()     {}
func (DaemonOutput) event()    {}
func (DaemonExited) event()    {}
func (StartDaemons) effect()   {}
func (KillDaemons) effect()    {}
func (ResumeDaemon) effect()   {}
func (DaemonsPrinted) effect() {}
func (DaemonsOver) effect()    {}

// tickets are the driver's numbers of orders, by the root's.
type tickets map[uint32]uint32

// of is the root's number for one of the driver's; 0: it is over.
func (t tickets) of(ticket uint32) uint32 {
	for id, k := range t {
		if k == ticket {
			return id
		}
	}
	return 0
}

func (c *Core) daemonEvent(ev Event) {
	switch ev := ev.(type) {
	case DaemonsAsked:
		c.askDaemons(ev)
	case DaemonsTaken:
		c.doDaemons(c.daemons.Granted(c.root.daemons.of(ev.ID), int(ev.N)))
	case DaemonsLeft:
		c.doDaemons(c.daemons.End(c.root.daemons.of(ev.ID)))
	case DaemonOutput:
		c.doDaemons(c.daemons.Output(ev.ID, daemons.Chunk{Number: ev.Number, Stream: ev.Stream, Data: ev.Data}))
	case DaemonExited:
		c.doSessions(c.sessions.Exited(ev.ID, job.Slot(ev.Number)))
		c.doDaemons(c.daemons.Exited(ev.ID, ev.Number, ev.Status, ev.Cause))
	}
}

// askDaemons begins an order of a caller's.
func (c *Core) askDaemons(ev DaemonsAsked) {
	if !c.mayOrder(ev.ID) {
		return
	}
	if ev.Input != wire.ReadsNothing {
		c.askReader(ev)
		return
	}
	nodes, missing := c.nodesOf(ev.Hosts)
	if missing != "" {
		c.refuseDaemons(ev.ID, "the job has no host "+missing)
		return
	}
	id := c.ticketed(ev.ID)
	c.orderDaemons(wire.Daemons{ID: id, PerRank: ev.PerRank, Nodes: nodes, Argv: rankwire.NewStrings(ev.Argv...),
		Credit: daemons.CallerCredit})
}

func (c *Core) refuseDaemons(ticket uint32, why string) {
	c.do(DaemonsOver{DaemonsEnded: wire.DaemonsEnded{ID: ticket}, Refused: why})
}

// mayOrder reports whether the job can have daemons for a caller now, or tells it why not.
func (c *Core) mayOrder(ticket uint32) bool {
	switch {
	case c.stage != running:
		c.refuseDaemons(ticket, "the job's ranks do not run yet, or not any more")
	case c.daemons.Open() >= daemons.MaxOpen:
		c.refuseDaemons(ticket, fmt.Sprintf("the job has daemons for %d callers already", daemons.MaxOpen))
	default:
		return true
	}
	return false
}

// ticketed is the number of a new order.
func (c *Core) ticketed(ticket uint32) uint32 {
	id := c.daemons.Next()
	if c.root.daemons == nil {
		c.root.daemons = tickets{}
	}
	c.root.daemons[id] = ticket
	return id
}

// nodesOf finds the nodes of hosts. Missing is a host that is none.
func (c *Core) nodesOf(hosts []string) (nodes wire.NodeSpans, missing string) {
	if len(hosts) == 0 {
		return nodes, ""
	}
	found := map[string]bool{}
	for _, h := range hosts {
		found[h] = false
	}
	var all []job.NodeIndex
	for i := range c.children {
		for _, p := range c.partsOf(Link(i)) {
			for k := range p.Nodes.Len() {
				index, host := p.First+job.NodeIndex(k), c.hostOf(p, k)
				if _, asked := found[host]; asked {
					found[host] = true
					all = append(all, index)
				}
			}
		}
	}
	for _, h := range hosts {
		if !found[h] {
			return nodes, h
		}
	}
	slices.Sort(all)
	var spans []wire.NodeSpan
	for _, n := range all {
		if last := len(spans) - 1; last >= 0 && spans[last].End() == n {
			spans[last].Count++
		} else {
			spans = append(spans, wire.NodeSpan{First: n, Count: 1})
		}
	}
	return wire.NewNodeSpans(spans...), ""
}

// hostOf is the host of a node of a part, at the root.
func (c *Core) hostOf(p job.Part, k int) string {
	if len(c.root.members.replaced) > 0 { // by spares, of which only their parents know
		node, _ := c.nodeAt(p.First + job.NodeIndex(k))
		return node.Host
	}
	return p.Nodes.At(k).Host
}

// daemonOrder obeys the parent. An agent whose ranks are being started waits for them: a daemon is
// told their processes.
func (c *Core) daemonOrder(m frame.Message) {
	if len(c.held) > 0 || c.startsRanks() {
		c.held = append(c.held, Frame{Up, m})
		return
	}
	switch m := m.(type) {
	case wire.Daemons:
		c.orderDaemons(m)
	case wire.Session:
		c.orderSession(m)
	case wire.SessionRelease:
		c.doSessions(c.sessions.Release(m.ID, m.Part))
	case wire.SessionPiece:
		c.doSessions(c.sessions.Down(m.ID, m.Data))
	case wire.SessionRoom:
		c.doSessions(c.sessions.Down(m.ID, rankwire.ToolRoom{N: m.N}))
	case wire.DaemonGrant:
		c.doDaemons(c.daemons.Granted(m.ID, int(m.N)))
	case wire.DaemonsEnd:
		c.doDaemons(c.daemons.End(m.ID))
	case wire.DaemonInput:
		c.feedDaemon(m.ID, m.Stdin)
	}
}

// startsRanks reports whether the ranks of this node do not run yet.
func (c *Core) startsRanks() bool {
	return c.stage == running && c.below.Own.Count() > 0 && !c.starts.forked
}

// isNewDaemon reports whether a number is of no order that has come.
func (c *Core) isNewDaemon(id uint32) bool {
	for _, ev := range c.held {
		switch m := ev.(Frame).Msg.(type) {
		case wire.Daemons:
			if m.ID == id {
				return false
			}
		case wire.Session:
			if m.ID == id {
				return false
			}
		}
	}
	return id >= c.daemons.Next()
}

// heldDaemons does what has waited for the ranks of this node.
func (c *Core) heldDaemons() {
	if len(c.held) == 0 || c.startsRanks() {
		return
	}
	held := c.held
	c.held = nil
	for _, ev := range held {
		m := ev.(Frame).Msg
		if lie := c.parentLies(m); lie != "" { // the job has other nodes now, as agents below know
			c.distrust(Up, m, lie)
			return
		}
		c.daemonOrder(m)
	}
}

// daemonsOrphaned ends all daemons of this subtree, since the parent is gone, which has counted them
// as lost. What waits for the ranks of this node is forgotten: a new parent does not know of it.
func (c *Core) daemonsOrphaned() {
	c.held = nil
	c.doDaemons(c.daemons.ParentLost())
}

// meant is how many nodes of a part an order means.
func meant(asked wire.NodeSpans, p job.Part) (count uint32) {
	if asked.Len() == 0 {
		return uint32(p.Nodes.Len())
	}
	for s := range asked.All() {
		if lo, hi := max(s.First, p.First), min(s.End(), p.End()); lo < hi {
			count += uint32(hi - lo)
		}
	}
	return count
}

// orderDaemons passes an order on, and starts the daemons of this node.
func (c *Core) orderDaemons(m wire.Daemons) { c.openDaemons(m, nil, 0, 0) }

// openDaemons opens an order, of a session if there is one, of which this node has some members. Sent
// are the children that it was passed on to.
func (c *Core) openDaemons(m wire.Daemons, s *wire.Session, first job.Slot, members uint32) (sent map[Link]bool,
	start StartDaemons) {
	below := m
	below.Credit = daemons.ChildCredit
	order := frame.Message(below)
	if s != nil {
		session := *s
		session.Credit = daemons.ChildCredit
		order = session
	}
	sent = map[Link]bool{}
	var to []daemons.Child
	var over, lost uint32
	for i := range c.children {
		k, most := &c.children[i], uint32(0)
		for _, p := range c.partsOf(Link(i)) {
			most += meant(m.Nodes, p)
		}
		switch {
		case most == 0:
		case k.In(child.HasExited) || c.stage != running:
			over += most
		case !k.In(child.Settled):
			lost += most
		default:
			to = append(to, daemons.Child{To: Link(i), Most: most})
			sent[Link(i)] = true
			c.send(Link(i), order)
		}
	}
	own, start := c.ownDaemons(m)
	if len(own) == 0 && start.Place > 0 {
		over++
	}
	if s != nil && len(own) > 0 {
		start.First, start.Count, start.Env = first, members, stringsOf(s.Env)
		for span := range s.Members.All() {
			start.Size += span.Nodes.Count * span.Each
		}
		own = own[:0]
		for k := range members {
			own = append(own, uint32(first)+k)
		}
	}
	if start.Place--; len(own) > 0 {
		c.do(start)
	}
	c.doDaemons(c.daemons.Order(m.ID, m.Credit, c.cfg.Host, own, to, over, lost))
	if m.Input != wire.ReadsNothing {
		c.daemons.Reads(m.ID)
	}
	return sent, start
}

// ownDaemons are those of this node, and how they are started. Place is counted from 1 here; 0: the
// node is not meant.
func (c *Core) ownDaemons(m wire.Daemons) (own []uint32, start StartDaemons) {
	index := c.ranks.index
	if c.below.Own.Count() == 0 || c.below.Own.Left() { // another node may have its number
		return nil, start
	}
	place, isMeant := uint32(0), m.Nodes.Len() == 0
	if isMeant {
		place = uint32(index)
	}
	for s := range m.Nodes.All() {
		if index >= s.End() {
			place += s.Count
		} else if index >= s.First {
			place, isMeant = place+uint32(index-s.First), true
		}
	}
	if !isMeant {
		return nil, start
	}
	start = StartDaemons{ID: m.ID, PerRank: m.PerRank, Number: uint32(index), Place: place + 1, Input: m.Input,
		Window: m.Window}
	if c.stage != running || !c.starts.forked {
		return nil, start
	}
	start.Argv = stringsOf(m.Argv)
	for rank, p := range c.below.Own.All() {
		if !p.Exited() && (m.Input == wire.ReadsNothing || rank == m.OfRank) {
			start.Ranks = append(start.Ranks, rank)
			if m.PerRank {
				own = append(own, uint32(rank))
			}
		}
	}
	if !m.PerRank && len(start.Ranks) > 0 {
		own = []uint32{uint32(index)}
	}
	return own, start
}

// daemonsBelow takes what a child says of daemons.
func (c *Core) daemonsBelow(from Link, m frame.Message) {
	switch m := m.(type) {
	case wire.DaemonOutput:
		chunk := daemons.Chunk{Number: m.Number, Stream: m.Stream, Data: m.Data}
		c.doDaemons(c.daemons.OutputBelow(from, m.ID, chunk))
	case wire.DaemonsEnded:
		c.doSessions(c.sessions.EndedBelow(from, m.ID))
		c.doDaemons(c.daemons.EndedBelow(from, m.ID, m.DaemonEnds))
	case wire.DaemonRoom:
		c.doDaemons(c.daemons.TakenBelow(from, m.ID, int(m.N)))
	}
}

// daemonsClosed ends the daemons, since the job does here, and reports whether none is left.
func (c *Core) daemonsClosed() bool {
	c.heldDaemons()
	c.doDaemons(c.daemons.Close(c.now))
	return c.daemons.Open() == 0
}

// hasDaemon reports whether a number is of a child's subtree: of a node, or of a rank.
func (k *branch) hasDaemon(number uint32) bool {
	return k.hasNode(job.NodeIndex(number)) || k.hasRanks(job.Slot(number), 1)
}

// hasNodes reports whether the job has nodes.
func (c *Core) hasNodes(asked wire.NodeSpans) bool {
	end := job.NodeIndex(0)
	for s := range asked.All() {
		end = s.End()
	}
	return uint32(end) <= c.job.Layout.Nodes()
}

func (c *Core) doDaemons(effects []daemons.Effect) {
	for i := range effects {
		switch e := &effects[i]; e.Do {
		case daemons.Pass:
			m := wire.DaemonOutput{ID: e.ID, Number: e.Chunk.Number, Stream: e.Chunk.Stream, Data: e.Chunk.Data}
			if !c.cfg.Root {
				c.send(Up, m)
				continue
			}
			m.ID = c.root.daemons[e.ID]
			c.do(DaemonsPrinted{m})
		case daemons.Grant:
			c.send(e.To, wire.DaemonGrant{ID: e.ID, N: uint32(e.N)})
		case daemons.Resume:
			c.do(ResumeDaemon{e.ID, e.Chunk.Number, e.Chunk.Stream})
		case daemons.Kill:
			c.do(KillDaemons{e.ID})
		case daemons.End:
			c.send(e.To, wire.DaemonsEnd{ID: e.ID})
		case daemons.Ended:
			c.sessions.Close(e.ID)
			if !c.cfg.Root {
				c.send(Up, wire.DaemonsEnded{ID: e.ID, DaemonEnds: e.Ends})
				continue
			}
			ticket := c.root.daemons[e.ID]
			delete(c.root.daemons, e.ID)
			c.do(DaemonsOver{DaemonsEnded: wire.DaemonsEnded{ID: ticket, DaemonEnds: e.Ends}})
		case daemons.Feed:
			c.do(FeedDaemon{e.ID, wire.Stdin(e.Input)})
		case daemons.Down:
			c.send(e.To, wire.DaemonInput{ID: e.ID, Stdin: wire.Stdin(e.Input)})
		case daemons.Room:
			if !c.cfg.Root {
				c.send(Up, wire.DaemonRoom{ID: e.ID, N: uint32(e.N)})
				continue
			}
			c.do(SessionRoom{c.root.daemons[e.ID], uint32(e.N)})
		case daemons.Wake:
			c.wakeAt(e.At)
		}
	}
	clear(effects)
}
