package core

import (
	"fmt"

	"ibrun/bootstrap/core/child"
	"ibrun/bootstrap/tree"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// A neighbour may lie: its process may be damaged, or somebody else's. So what it
// says is held against what an agent of this build can say in its place, before
// anything is done about it: about nodes and ranks that are its own, in answer to
// what it was asked, in the states of docs/dev/protocol.md, "Permitted messages". A
// child that lies is cut off, as if it had been lost, and its siblings go on; an
// agent whose parent lies ends its part of the job.

// distrust ends a link on which a lie came.
func (c *Core) distrust(l Link, m frame.Message, lie string) {
	c.cut(l, fmt.Sprintf("it sent what no agent sends: %s %s", wire.Vocabulary.Name(m.Kind()), lie))
}

// childLies says what of a child's message cannot be true; empty: nothing.
func (c *Core) childLies(l Link, m frame.Message) (lie string) {
	k := &c.children[l]
	launching := k.In(child.Launching)
	if k.In(child.Resumed) && m.Kind() != wire.KindState && m.Kind() != wire.KindHeartbeat {
		return "before State"
	}
	switch m := m.(type) {
	case wire.Ready:
		return lieIf(!launching || uint64(m.Up)+uint64(m.Failed) > uint64(k.part.Len()+k.dead.Len()), "of other nodes, or again")
	case wire.Times:
		return k.timesLie(c.job.Launch.Timed, m)
	case wire.Below, wire.State, wire.Report, wire.Chunk, wire.Joined:
		return c.repairLies(k, m)
	case wire.Output:
		return lieIf(!k.hasRanks(m.Rank, 1), "of another's rank") + lieIf(len(m.Data) > k.credit, "beyond its credit")
	case wire.StdinRoom:
		return lieIf(int64(k.room)+int64(m.N) > inputWindow, "of more than it was sent")
	case wire.Return:
		return lieIf(!launching || !k.mayGive(m.Part.First, uint32(m.Part.Nodes.Len())), "of nodes that are not its to give")
	case wire.Fault:
		return k.faultLies(m)
	case wire.Waiting:
		return lieIf(!launching, "after Ready")
	case rankwire.Answer:
		return c.lookups.Lie(l, m)
	case rankwire.Collect:
		return c.collectives.Lie(l, m)
	case wire.Blocks:
		return c.lookups.TableLie(l, m.Values, k.part.Len(), k.hasNode)
	case wire.BulkFetch:
		return lieIf(m.Fence > c.collectives.Passed, "for a fence that is not passed")
	case wire.BulkValues:
		return lieIf(c.bulk.Refuses(l, m.Fence), "that was not called for")
	case wire.TableFetch:
		return c.lookups.FetchLie(m.Round)
	case wire.TableValues:
		if c.tables.Refuses(l, m.Round) {
			return "that was not called for"
		}
		return c.lookups.BlocksLie(m.Values, k.part.Len(), k.hasNode)
	case rankwire.Tally:
		return lieIf(!c.job.Transport.Stats || k.In(child.Counted), "that nobody wants")
	case wire.Placed:
		return k.placedLies(c.job, m)
	case rankwire.Name:
		return lieIf(!k.hasRanks(m.Rank, 1), "of another's rank")
	case rankwire.SpawnJob:
		return lieIf(!k.hasRanks(m.Rank, 1), "of another's rank")
	case rankwire.Failures:
		return c.failuresLie(k, m)
	case wire.Swept:
		return "that nobody asked for"
	case wire.Signal:
		return lieIf(m.Number != sigTstp && !isWarning(m.Number), "as if it were the parent")
	case wire.FloorSet:
		return lieIf(m.Serial > c.recovery.Floor(), "of a floor that it was not told")
	case wire.Recalled:
		return lieIf(m.Serial == 0 || m.Serial > c.recovery.Standing().Recall, "of a recall that it was not told")
	case wire.Replaced:
		return lieIf(!c.job.Launch.Restarts || launching || !k.hasNode(m.Node), "of another's node")
	case wire.Rest:
		return lieIf(!c.job.Launch.Restarts || launching || m.Serial > c.recovery.Floor(), "of a floor that it was not told")
	case wire.Respawned:
		return lieIf(m.Serial > c.recovery.Floor() || !k.hasRanks(m.First, m.Count), "of another's ranks")
	case wire.Reply:
		return c.queries.Lie(m.ID, m.Standings, k.hasRanks)
	case wire.DaemonOutput, wire.DaemonsEnded, wire.DaemonRoom, wire.SessionCollect, wire.SessionPiece, wire.SessionRoom:
		return c.tools.ChildLie(l, m, k.hasDaemon)
	case wire.CCSReply:
		return lieIf(!k.hasRanks(m.Rank, 1), "of another's rank")
	case rankwire.Follow:
		return lieIf(!k.hasRanks(c.job.Layout.Slot(0), 1), "of another's rank")
	case wire.Departed:
		return lieIf(len(k.leaving) == 0, "of nodes that did not leave")
	case wire.Exit:
		return lieIf(!areAll(m.Runs, k.part) && (k.before == nil || !areAll(m.Runs, k.before)), "of other ranks than its own")
	}
	return ""
}

// lieIf is a lie if it is one.
func lieIf(lies bool, lie string) string {
	if lies {
		return lie
	}
	return ""
}

func (k *branch) faultLies(m wire.Fault) string {
	switch m.What {
	case wire.FaultRank, wire.FaultFork, wire.FaultAbort, wire.FaultRollback:
		return lieIf(!k.hasNode(m.Node) || m.Count == 0 || !k.hasRanks(m.Rank, m.Count), "of another's ranks")
	case wire.FaultLaunch:
		return lieIf(!k.In(child.Launching) || !k.mayGive(m.Node, m.Nodes), "of nodes that are not its to start")
	}
	return lieIf(!k.hasNode(m.Node) || m.Nodes == 0 || m.Nodes > uint32(k.part.Len()+k.before.Len()+k.leaving.Len()+k.left.Len()),
		"of another's nodes")
}

func (c *Core) failuresLie(k *branch, m rankwire.Failures) string {
	if !c.tellsFailures() {
		return "that nobody wants"
	}
	for s := range m.Ranks.All() {
		if !k.hasRanks(s.First, s.Count) {
			return "of another's ranks"
		}
	}
	return ""
}

// belong reports whether all spans are below a limit: they are in order.
func belong(spans rankwire.SlotSpans, limit uint32) bool {
	end := job.Slot(0)
	for s := range spans.All() {
		end = s.End()
	}
	return uint32(end) <= limit
}

// timesLie returns the reason that m is invalid, or "". Each node in m must be in the subtree of the child k, must
// occur once, and must follow its parent.
func (k *branch) timesLie(timed bool, m wire.Times) string {
	if !k.In(child.Launching) || !timed || k.times == nil || k.times.below.Len() > 0 {
		return "that nobody wants"
	}
	if uint64(m.Missing)+uint64(m.Nodes.Len()) > uint64(k.part.Len()+k.dead.Len()) {
		return "of more nodes than it has"
	}
	here := map[job.NodeIndex]bool{}
	for t := range m.Nodes.All() {
		head := len(here) == 0
		switch {
		case head != (t.Node == k.head.First), !head && !here[t.Parent-1], here[t.Node], !k.hasNode(t.Node) && !k.dead.Has(t.Node):
			return fmt.Sprintf("of node %d", t.Node)
		}
		here[t.Node] = true
	}
	return ""
}

func (k *branch) placedLies(j *job.Job, m wire.Placed) string {
	if b := j.Binding; !b.Report && !b.Topo {
		return "that nobody wants"
	}
	if !k.hasNode(m.Node) || uint32(m.Node) >= j.Layout.Nodes() {
		return "of another's node"
	}
	first, count := j.Layout.SlotsOn(m.Node)
	for p := range m.Ranks.All() {
		if p.Rank < first || uint32(p.Rank-first) >= count {
			return "of another's rank"
		}
	}
	return ""
}

// areAll reports whether runs are of all ranks of some nodes, each once, and of no
// others.
func areAll(runs wire.Endings, nodes job.Parts) bool {
	at, end := job.Slot(0), job.Slot(0) // of the part that is looked at
	for run := range runs.All() {
		for run.Count > 0 {
			if at == end && len(nodes) > 0 {
				at, end, nodes = nodes[0].Nodes.Base(), nodes[0].Nodes.Base()+job.Slot(nodes[0].Nodes.Ranks()), nodes[1:]
			}
			n := min(run.Count, uint32(end-at))
			if run.First != at || n == 0 {
				return false
			}
			at, run.First, run.Count = at+job.Slot(n), run.First+job.Slot(n), run.Count-n
		}
	}
	return at == end && len(nodes) == 0
}

// parentLies says what of the parent's message cannot be true; empty: nothing.
func (c *Core) parentLies(m frame.Message) (lie string) {
	switch m := m.(type) {
	case wire.Launch:
		_, err := tree.Parse(m.Job.Launch.Tree)
		return lieIf(c.stage != idle || err != nil, "of another tree, or again")
	case wire.Sweep:
		return lieIf(c.stage != idle, "with a job")
	case wire.End, wire.Heartbeat:
		return ""
	}
	if c.stage == idle {
		return "before Launch"
	}
	switch m := m.(type) {
	case wire.Membership:
		return c.membershipLies(m)
	case rankwire.Resize:
		return c.resizeLies(m)
	case wire.Enter:
		return lieIf(c.stage == launching || c.starts.ranks != unforked || !c.job.Launch.StartBarrier || len(c.children) > 0,
			"that nobody waits for")
	case wire.Join:
		return "with a job"
	case wire.Resume:
		return lieIf(!c.repair.unresumed, "on no new link")
	case wire.Passed:
		return lieIf(!c.repairs(), "that nobody wants")
	case wire.Query:
		return lieIf(c.stage == launching || m.ID < c.queries.Next(), "before Ready, or again")
	case wire.Daemons, wire.Session:
		if c.stage == launching {
			return "before Ready, again, or of no nodes"
		}
		return c.tools.ParentLie(m)
	case wire.SessionRelease, wire.SessionPiece, wire.SessionRoom, wire.DaemonGrant, wire.DaemonsEnd, wire.DaemonInput:
		return c.tools.ParentLie(m)
	case rankwire.Follow:
		return lieIf(c.stage == launching || m.Step == rankwire.FollowCan, "before Ready, or that is not for ranks")
	case wire.CCSRequest:
		return lieIf(c.stage == launching || !c.below.Covers(m.Rank), "before Ready, or for another's rank")
	case wire.Stdin:
		return lieIf((m.EOF || len(m.Data) > 0) && (c.input.over || len(m.Data) > c.input.room), "beyond its end, or for no room")
	case rankwire.Answer:
		return c.lookups.Lie(Up, m)
	case rankwire.Release:
		return lieIf(!c.collectives.Awaits(m.Op), "of what nobody has joined")
	case wire.Floor:
		return c.restartLies(m.First, m.Count)
	case wire.Respawn:
		return c.restartLies(m.First, m.Count) + lieIf(m.Serial > c.recovery.Floor(), "before its Floor")
	case wire.Replace:
		return lieIf(!c.job.Launch.Restarts || uint32(m.Part.First) >= c.job.Layout.Nodes() || !m.Part.Fits(c.job.Layout),
			"of no node, or that nobody wants")
	case wire.Standing:
		return c.standingLies(m)
	case wire.Recall:
		return lieIf(!c.job.Launch.Restarts, "that nobody wants")
	case wire.Blocks:
		return lieIf(!c.lookups.TableAwaited(), "that nobody wants")
	case rankwire.Failures:
		return lieIf(!c.tellsFailures() || !belong(m.Ranks, c.job.Layout.Ranks()), "of no ranks, or that nobody wants")
	case wire.BulkFetch:
		return c.fenceLies(m.Fence)
	case wire.BulkValues:
		return lieIf(!c.bulk.Waits(), "that nobody asked for") + c.fenceLies(m.Fence)
	case wire.TableFetch:
		return c.lookups.FetchLie(m.Round)
	case wire.TableValues:
		return lieIf(!c.tables.Waits(), "that nobody asked for")
	}
	return ""
}

// fenceLies returns the reason that a message about a completed fence is invalid, or "". A fence cannot be complete
// elsewhere before it has completed or failed in this subtree, unless no rank of this subtree takes part in it.
func (c *Core) fenceLies(fence uint32) string {
	return lieIf(c.starts.ranks != unforked && c.collectives.MayJoin() && fence > c.collectives.Over(), "for a fence that is not over")
}

func (c *Core) membershipLies(m wire.Membership) string {
	if c.stage == ending {
		return ""
	}
	if c.stage != running || c.starts.ranks != unforked || m.Dropped.Len() > 0 && len(c.job.Programs) > 1 {
		return "that nobody waits for"
	}
	for d := range m.Dropped.All() {
		mine := c.ranks.index >= d.First && uint32(c.ranks.index-d.First) < d.Count
		for i := range c.children {
			mine = mine || c.children[i].part.Within(d.First, d.End()) != nil
		}
		if mine || uint32(d.End()) > c.job.Layout.Nodes() {
			return "of nodes that are there, or of none"
		}
	}
	return ""
}
