package core

import (
	"maps"
	"slices"
	"time"

	"ibrun/bootstrap/core/child"
	"ibrun/bootstrap/core/recovery"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// An agent that has lost its parent waits for another one, in a job that repairs its tree. adopt.go
// has the other side; docs/dev/decisions/0021-tree-repair.md has the rules.
//
//	linked --link lost--> waiting --Relinked--> linked, nothing is sent --Resume--> State, repetitions
//	                      waiting --the time is up--> ending, as without repair
//
// An agent that has reported how its ranks ended stays until the root ends the job: if its parent
// is lost with the report, it reports again.

// How long an agent waits for a new parent. One below the root waits in vain if the root is lost,
// and a host that was cut off has been silent for long. Where sessions are slow it waits for twice
// the time of those that a new parent needs, but not for ever.
const (
	waitMost   = 6 * time.Second
	waitRoot   = 2 * time.Second
	waitSilent = 4 * time.Second
)

// overMost is how long an agent that is done waits for the ends of the agents below it.
const overMost = time.Second

// mostNotes is how much that is for the user is kept while there is no parent.
const mostNotes = 64

// repairing is what an agent keeps in a job that repairs its tree.
type repairing struct {
	cutting   bool          // the link that is lost was cut by this agent
	rooted    bool          // the parent is the root
	session   time.Duration // that the session took by which this agent was started
	waiting   bool          // for a parent
	until     time.Duration // it waits no longer
	unresumed bool          // there is a new link, and nothing is sent before Resume
	left      bool          // Exit was sent
	exit      wire.Exit
	exitAgain bool          // it is to be sent to a new parent
	over      bool          // nothing keeps this agent but the ends of those below
	overBy    time.Duration // it waits no longer for them

	sent       recovery.Sent[chunk]
	streams    recovery.Streams
	reports    recovery.Reports[wire.Report]
	signals    recovery.Signals
	input      recovery.Input[wire.Stdin]
	inputs     uint32 // frames of Stdin that have come
	asked      recovery.Asked
	floors     []wire.Floor
	respawns   []wire.Respawn
	respawn    uint32 // serial of the newest that has come
	respawned  []wire.Respawned
	membership *wire.Membership
	failed     rankwire.SlotSpans              // that were sent up
	number     uint32                          // of the Replace by which this agent was started; 0: it was launched with the job
	refused    bool                            // its ranks use PMI, and the root knows
	replaces   map[job.NodeIndex]wire.Replace  // the newest that has come down, by the node
	replaced   map[job.NodeIndex]wire.Replaced // the newest that has gone up
	notes      []frame.Message
}

// repairs reports whether the job repairs its tree.
func (c *Core) repairs() bool { return c.job != nil && c.job.Launch.Repair }

// tellsFailures reports whether ranks are told of others that have failed.
func (c *Core) tellsFailures() bool {
	return c.job.Launch.KeepGoing || c.job.Launch.Repair || c.job.Launch.Restarts
}

// openRecovery prepares this agent for the loss of ranks and agents, after it has received its Launch m.
func (c *Core) openRecovery(m wire.Launch) {
	c.tellRecovery(recovery.Open{
		Job: m.Job, Host: c.cfg.Host, RepairAsked: c.cfg.Policy.RepairAsked,
		Members: recovery.NewMembers(
			job.Part{First: m.First, Nodes: m.Nodes}, c.cfg.Policy.Spares, c.cfg.Here, c.cfg.Policy.SpareHere),
		Limit: recovery.Limit{Most: c.cfg.Policy.MaxRestarts, Within: c.cfg.Policy.RestartsWithin},
	})
	if c.repairs() {
		c.collectives.Keeps, c.bulk.Keeps, c.tables.Keeps = true, true, true
		c.repair.streams, c.repair.rooted = recovery.Streams{}, c.level == 1
		c.repair.session = time.Duration(m.SessionMs) * time.Millisecond
	}
}

// remember keeps what is sent, for a parent or a child that is not there yet.
func (c *Core) remember(to Link, m frame.Message) {
	r := &c.repair
	if to != Up {
		switch m := m.(type) {
		case wire.Floor:
			if n := len(r.floors); n == 0 || r.floors[n-1].Serial < m.Serial {
				r.floors = append(r.floors, m)
			}
		case wire.Respawn:
			if n := len(r.respawns); n == 0 || r.respawns[n-1] != m {
				r.respawns = append(r.respawns, m)
			}
		case wire.Membership:
			r.membership = &m
		}
		return
	}
	switch m := m.(type) {
	case wire.Respawned:
		r.respawned = append(r.respawned, m)
	case wire.Replaced:
		if r.replaced == nil {
			r.replaced = map[job.NodeIndex]wire.Replaced{}
		}
		r.replaced[m.Node] = m
	case rankwire.Failures:
		r.failed = recovery.Merged(r.failed.Join(m.Ranks))
	case rankwire.Notice, wire.Placed:
		if (!c.clock.linked || r.unresumed) && len(r.notes) < mostNotes {
			r.notes = append(r.notes, m)
		}
	}
}

// holdsBack reports whether a message is not sent on a new link, since what it says is said again
// when both sides know what the other has: here after Resume, there after State.
func (c *Core) holdsBack(to Link, m frame.Message) bool {
	if to == Up {
		return c.repair.unresumed && m.Kind() != wire.KindHeartbeat
	}
	if !c.children[to].In(child.Resumed) {
		return false
	}
	switch m.(type) {
	case wire.Resume, wire.Heartbeat, wire.End:
		return false
	}
	return true
}

// most is how long an agent waits that has lost its parent. The root makes one session, to this
// agent. Another parent's parent needs one to see that it is lost, and then one to this agent.
func (r *repairing) most() time.Duration {
	least, sessions := waitMost, 2*r.session
	switch {
	case r.rooted:
		least, sessions = waitRoot, r.session
	case r.cutting:
		least = waitSilent
	}
	return recovery.Patience(least, sessions)
}

// wait waits for a new parent.
func (c *Core) wait() {
	r := &c.repair
	if r.waiting {
		return
	}
	c.clock.linked, r.waiting, r.unresumed, r.until = false, true, false, c.now+r.most()
	if c.recovery.Relaunches() { // later, the ranks of this node may be restarted on another node
		r.until = min(r.until, max(c.clock.up.received+recovery.OrphanTimeout, c.now))
	}
	c.wakeAt(r.until)
}

// checkWait ends the wait when its time is up, also in a job that is stopped: agents run on, and the
// root may be dead.
func (c *Core) checkWait() {
	r := &c.repair
	switch {
	case !r.waiting || c.stage != running:
	case c.now < r.until:
		c.wakeAt(r.until)
	default:
		r.waiting = false
		c.orphaned(c.recovery.Relaunches() && !r.rooted)
	}
}

// relinked takes a new link to a parent, which has not sent anything yet.
func (c *Core) relinked(ev Relinked) {
	r := &c.repair
	c.clock.up, c.clock.linked = life{received: c.now, sent: c.now}, true
	r.waiting, r.unresumed, r.rooted = false, true, ev.Level == 0
	if c.stage == running {
		c.flow.credit = 0
	}
	c.lookups.ParentLost()
	c.perform(c.tools.ParentLost())
}

// resumed tells the new parent what is here, and repeats what the old one may have taken with it.
func (c *Core) resumed(m wire.Resume) {
	r := &c.repair
	r.unresumed = false
	c.outputAgain(int(m.Credit))
	held := 0
	for _, in := range c.input.queue {
		held += len(in.Data)
	}
	c.input.room, c.input.owed = inputWindow-held, 0
	state := wire.State{
		Signals: r.signals.Count(), Input: r.inputs, Held: uint32(held), Released: c.collectives.Over(),
		Floor: c.recovery.Floor(), Respawn: r.respawn, Begun: c.starts.ranks != unforked || r.number > 0,
	}
	if c.starts.ranks == unforked { // if this agent has replaced a lost one, its ranks wait for a Respawn
		state.Replaces = r.number
	}
	c.send(Up, state)
	for _, report := range r.reports.Kept() {
		c.send(Up, report)
	}
	for _, respawned := range r.respawned {
		c.clock.up.sent = c.now
		c.do(Send{To: Up, Msg: respawned})
	}
	if serial := c.recovery.FloorConfirmed(); serial > 0 {
		c.send(Up, wire.FloorSet{Serial: serial})
	}
	if r.failed.Len() > 0 {
		c.send(Up, rankwire.Failures{Ranks: r.failed})
	}
	for _, node := range slices.Sorted(maps.Keys(r.replaced)) {
		c.send(Up, r.replaced[node])
	}
	if c.clock.stopped {
		c.send(Up, wire.Signal{Number: sigTstp})
	}
	c.doCollectives(c.collectives.JoinAgain())
	c.doLookups(c.lookups.AskAgain(c.now, Up))
	c.doBulk(c.bulk.RequestAgain())
	c.doTables(c.tables.RequestAgain())
	for _, question := range r.asked.Open() {
		c.send(Up, question)
	}
	notes := r.notes
	r.notes = nil
	for _, note := range notes {
		c.send(Up, note)
	}
	// With a start barrier, nodes may get new indices until the ranks start.
	if !c.job.Launch.StartBarrier || c.starts.ranks != unforked || r.number > 0 {
		c.sendBelow()
	}
	r.exitAgain = r.left
	c.tellRecovery(recovery.Relinked{})
}

// outputAgain puts what the old parent has not granted ahead of what was not sent.
func (c *Core) outputAgain(credit int) {
	f := &c.flow
	if f.discarding {
		return
	}
	queue := c.repair.sent.Take()
	for i := range queue {
		queue[i].again = true
	}
	f.queue, f.head, f.credit = append(queue, f.queue[f.head:]...), 0, credit
}

// keepSent keeps output that was passed on until the root has it: then those who sent it may send
// more. A rank may go on at once, as far as the credit goes.
func (c *Core) keepSent(k chunk) (kept bool) {
	if !c.repairs() || c.cfg.Root || c.flow.discarding {
		return false
	}
	if k.from == Up && !k.again {
		c.giveBack(k)
	}
	c.repair.sent.Add(k, len(k.data))
	return true
}

// granted takes the parent's word that the root has output.
func (c *Core) granted(n int) {
	c.flow.credit += n
	for _, k := range c.repair.sent.Granted(n) {
		if k.from != Up {
			c.giveBack(k)
		}
	}
}

// place is where in its stream output of a rank begins.
func (c *Core) place(rank job.Slot, stream uint8, n int) uint64 {
	if !c.repairs() {
		return 0
	}
	return recovery.Base(c.repair.number) + c.repair.streams.Next(recovery.Stream{Rank: rank, Number: stream}, n)
}

// ownReport numbers a failure that this agent has seen, and sends it.
func (c *Core) ownReport(f wire.Fault, repaired bool) {
	c.sendReport(wire.Report{Node: c.ranks.index, Serial: c.repair.reports.Next(), Repaired: repaired, Fault: f})
}

// sendReport sends a numbered failure, and keeps it until the root has it.
func (c *Core) sendReport(m wire.Report) {
	c.repair.reports.Keep(m.Node, m.Serial, m)
	c.send(Up, m)
}

// reportBelow takes a numbered failure of a child's subtree.
func (c *Core) reportBelow(from Link, m wire.Report) {
	if !c.cfg.Root {
		c.sendReport(m)
		return
	}
	c.send(from, wire.Passed{Node: m.Node, Serial: m.Serial})
	switch {
	case !c.repair.reports.First(m.Node, m.Serial):
	case m.Repaired:
		c.nodeLost(m.Fault, true)
	default:
		c.fault(m.Fault)
	}
}

// passed takes the root's word that it has failures of a node.
func (c *Core) passed(m wire.Passed) {
	c.repair.reports.Passed(m.Node, m.Serial)
	for i := range c.children {
		if c.children[i].hasNode(m.Node) {
			c.send(Link(i), m)
		}
	}
}

// askedUp takes a question of a rank to the root that counts once. False: it is on its way, or
// answered.
func (c *Core) askedUp(from Link, m frame.Message) bool {
	if !c.repairs() {
		return true
	}
	again := false // whether the child may have sent m before
	if from != Up {
		k := &c.children[from]
		again = k.In(child.Adopted) && !k.knowsBelow()
	}
	answer, known := c.repair.asked.Ask(m, again)
	if answer != nil {
		c.send(from, answer)
	}
	return !known
}

// checkLeft ends an agent that has sent Exit when the job ends, and those below it have ended.
func (c *Core) checkLeft() {
	r := &c.repair
	if r.exitAgain && c.clock.linked && !r.unresumed && c.flow.empty() {
		r.exitAgain = false
		if c.job.Transport.Stats {
			c.send(Up, rankwire.Tally{Of: &c.tally})
		}
		c.send(Up, r.exit)
	}
	if c.stage == ending && c.saidOver() {
		c.become(done)
		c.do(Finish{})
	}
}

// saidOver tells the agents below, which have sent Exit, that the job ends, and reports whether
// they have ended.
func (c *Core) saidOver() bool {
	r := &c.repair
	if !c.repairs() || c.root.asked > 1 {
		return true
	}
	if !r.over {
		r.over, r.overBy = true, c.now+overMost
		c.sendDown(wire.End{})
	}
	if c.countIn(child.Linked) > 0 && c.now < r.overBy {
		c.wakeAt(r.overBy)
		return false
	}
	return true
}

// repeatedUp reports whether a child's message is one that is here already.
func (c *Core) repeatedUp(from Link, m frame.Message) bool {
	k := &c.children[from]
	switch m := m.(type) {
	case rankwire.Collect:
		return k.In(child.Resumed|child.Adopted) && c.collectives.Repeated(from, m.Op)
	case wire.Blocks: // nobody waits for it, and that of a lost agent may be here
		return k.In(child.Resumed | child.Adopted | child.Replacing | child.Successor)
	}
	return false
}

// repairLies says what of a child's message cannot be, as far as repair is concerned.
func (c *Core) repairLies(k *branch, m frame.Message) string {
	if !c.repairs() {
		return "that nobody wants"
	}
	switch m := m.(type) {
	case wire.Below:
		return c.belowLies(k, m)
	case wire.State:
		return lieIf(!k.In(child.Resumed), "to no Resume")
	case wire.Report:
		return lieIf(!k.hasNode(m.Node), "of another's node") + k.faultLies(m.Fault)
	case wire.Chunk:
		return lieIf(!k.hasRanks(m.Output.Rank, 1), "of another's rank") +
			lieIf(len(m.Output.Data) > k.credit, "beyond its credit")
	}
	return "that nobody asked for"
}
