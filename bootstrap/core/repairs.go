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

// In a job that repairs its tree, an agent that has lost its parent waits for a new one. The new parent uses the
// functions of adopt.go. The rules are in docs/dev/decisions/0021-tree-repair.md.
//
//	linked --link lost--> waiting --Relinked--> linked, only heartbeats are sent --Resume--> State, repetitions
//	                      waiting --the deadline has passed--> ending, as without repair
//
// An agent that has reported how its ranks ended does not exit before the root ends the job. If its parent is lost
// together with the report, the agent sends the report again to its new parent.

// Minimum times that an agent waits for a new parent. repairing.most extends them if remote sessions are slow.
const (
	waitMost   = 6 * time.Second // default
	waitRoot   = 2 * time.Second // the parent is the root, which may be dead
	waitSilent = 4 * time.Second // this agent has cut the link, because the parent was silent for 10 s or more
)

// overMost is the maximum time from the order to the children to end until this agent ends, even if some children have
// not ended.
const overMost = time.Second

// mostNotes is the maximum number of messages for the user that an agent retains while it has no parent. It drops
// further ones.
const mostNotes = 64

// repairing is the core's state of tree repair. Most fields are used only in a job that repairs its tree.
type repairing struct {
	cutting   bool          // the current LinkLost is for a link that this agent itself has cut
	rooted    bool          // the present or last parent is the root
	session   time.Duration // time that the session took by which this agent was started
	waiting   bool          // this agent has lost its parent and waits for a new one
	until     time.Duration // time at which that wait ends
	unresumed bool          // there is a new link to a parent that has not sent Resume yet
	left      bool          // this agent has sent its Exit
	exit      wire.Exit     // the Exit that was sent
	exitAgain bool          // exit must be sent to the new parent
	over      bool          // this agent waits only for its children, which have been ordered to end
	overBy    time.Duration // time at which that wait ends

	sent       recovery.Sent[chunk]          // output sent to the parent for which no Grant has come yet
	streams    recovery.Streams              // positions of output: received at the root, of this node elsewhere
	reports    recovery.Reports[wire.Report] // reports of failures, see recovery.Reports
	signals    recovery.Signals              // signals for the ranks that have arrived
	input      recovery.Input[wire.Stdin]    // last frames of standard input that were forwarded
	inputs     uint32                        // number of Stdin frames received; wire.NoInput if number is not 0
	asked      recovery.Asked                // questions of the subtree's ranks to the root
	floors     []wire.Floor                  // all Floors that were sent to children, in order
	respawns   []wire.Respawn                // all Respawns that were sent to children, in order
	respawn    uint32                        // serial number of the newest Respawn from the parent
	respawned  []wire.Respawned              // all Respawned messages that were sent to the parent, in order
	membership *wire.Membership              // newest Membership sent to the children; nil before the first
	failed     rankwire.SlotSpans            // failed ranks that were reported to the parent
	number     uint32                        // number of the Replace that started this agent; 0 means none
	refused    bool                          // this agent has reported that its ranks use PMI; see spokePMI

	replaces map[job.NodeIndex]wire.Replace  // newest order from the parent to replace each node
	replaced map[job.NodeIndex]wire.Replaced // newest answer to the parent for each node
	notes    []frame.Message                 // messages for the user, retained while this agent has no parent
}

// repairs reports whether the job repairs its tree.
func (c *Core) repairs() bool { return c.job != nil && c.job.Launch.Repair }

// tellsFailures reports whether the agents of this job inform their ranks of failed ranks.
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

// remember retains a message that is sent to the parent or a child, if it may have to be sent again to a new parent or
// to an adopted child.
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

// holdsBack reports whether the message m must not be sent on the new link to. Before the link is resumed, only a few
// kinds of messages are sent. For a parent, the link is resumed when its Resume arrives. For a child, it is resumed
// when its State arrives. The sender then sends what the other side has missed.
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

// most returns the time to wait for a new parent. If the parent was the root, the root opens one session to this
// agent. Otherwise the new parent may open two sessions in turn: one to the lost parent, and one to this agent.
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

// wait begins the wait for a new parent after the link to the parent was lost.
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

// checkWait ends this subtree if no new parent has come in time. It does so in a stopped job, too, because agents are
// not stopped, and the root may be dead.
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

// relinked handles a new link to a parent. Nothing has arrived on the link yet.
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

// resumed tells the new parent which messages have arrived here. It then sends again what may have been lost with the
// old parent.
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
	// With a start barrier, nodes may get new indices until the ranks start. Below contains final indices.
	if !c.job.Launch.StartBarrier || c.starts.ranks != unforked || r.number > 0 {
		c.sendBelow()
	}
	r.exitAgain = r.left
	c.tellRecovery(recovery.Relinked{})
}

// outputAgain puts the output for which the old parent has sent no Grant at the head of the queue, so that it is sent
// to the new parent first. credit is the number of bytes that the new parent accepts.
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

// keepSent retains the output k, which was sent to the parent, until the parent confirms it with a Grant. A child that
// has sent the output gets new credit only then. A rank of this node may continue at once. keepSent returns false if
// it does not retain the output.
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

// granted handles a Grant of the parent for n bytes. In a job that repairs its tree, the root has written these bytes.
func (c *Core) granted(n int) {
	c.flow.credit += n
	for _, k := range c.repair.sent.Granted(n) {
		if k.from != Up {
			c.giveBack(k)
		}
	}
}

// place returns the position of the next n bytes in an output stream of a rank, as described at recovery.Streams. It
// returns 0 if the job does not repair its tree.
func (c *Core) place(rank job.Slot, stream uint8, n int) uint64 {
	if !c.repairs() {
		return 0
	}
	return recovery.Base(c.repair.number) + c.repair.streams.Next(recovery.Stream{Rank: rank, Number: stream}, n)
}

// ownReport sends the parent a failure that this agent has detected, with a new serial number. repaired is as in
// wire.Report.
func (c *Core) ownReport(f wire.Fault, repaired bool) {
	c.sendReport(wire.Report{Node: c.ranks.index, Serial: c.repair.reports.Next(), Repaired: repaired, Fault: f})
}

// sendReport sends a report to the parent, and retains it until the root confirms it.
func (c *Core) sendReport(m wire.Report) {
	c.repair.reports.Keep(m.Node, m.Serial, m)
	c.send(Up, m)
}

// reportBelow handles a report from a child's subtree. The root confirms every report and handles each one once. Other
// agents forward it.
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

// passed handles the root's confirmation of reports of one node. It forwards the confirmation to the child whose
// subtree contains the node.
func (c *Core) passed(m wire.Passed) {
	c.repair.reports.Passed(m.Node, m.Serial)
	for i := range c.children {
		if c.children[i].hasNode(m.Node) {
			c.send(Link(i), m)
		}
	}
}

// askedUp records a question of a rank that the root must handle only once. It returns true if the question must be
// forwarded. It returns false if the question was forwarded before. If its answer is known, it sends the answer.
func (c *Core) askedUp(from Link, m frame.Message) bool {
	if !c.repairs() {
		return true
	}
	again := false // m may be a repetition; an adopted child repeats its questions before it sends Below
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

// checkLeft handles the state after Exit was sent. It sends Exit again to a new parent. When the job ends and the
// children have ended, it ends this agent.
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

// saidOver tells the children that the job ends. They have sent Exit and wait for this message. It returns true if they
// have ended, overMost has passed, or the user has interrupted the job twice. It also returns true in a job that does
// not repair its tree.
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

// repeatedUp reports whether a child's message must be ignored, because the information was sent before: by this child
// or by an agent that it replaces.
func (c *Core) repeatedUp(from Link, m frame.Message) bool {
	k := &c.children[from]
	switch m := m.(type) {
	case rankwire.Collect:
		return k.In(child.Resumed|child.Adopted) && c.collectives.Repeated(from, m.Op)
	case wire.Blocks: // this agent does not wait for them, and those of a lost agent may have arrived already
		return k.In(child.Resumed | child.Adopted | child.Replacing | child.Successor)
	}
	return false
}

// repairLies returns the reason that a message of the child k about tree repair is invalid, or "".
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
