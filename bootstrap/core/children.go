package core

import (
	"fmt"
	"time"

	"ibrun/bootstrap/core/child"
	"ibrun/bootstrap/wire"
	"ibrun/internal/job"
)

// branch is the state of a child of this agent and of the child's subtree. The table of package child gives the actions
// for each event of a child (docs/dev/children.md), and branch.go performs them. The decision
// docs/dev/decisions/0013-late-binding.md describes which agent is responsible for which node.
type branch struct {
	child.Child // state of the child
	life
	head    job.Part  // node on which the child runs
	part    job.Parts // nodes that the child must start and report on, including head
	dead    job.Parts // nodes in the child's subtree that could not be started
	before  job.Parts // part with the node indices from before nodes were dropped; empty if none were dropped
	leaving job.Parts // nodes of the child that leave the job and have not ended yet
	left    job.Parts // nodes of the child that have left the job and have ended
	planned job.Part  // nodes that the child gets in its Launch, head first
	tried   tried
	due     due
	started time.Duration // time at which its session was requested
	phase   string        // phase of the opening of its session, for messages
	local   bool          // it runs on this machine, so its session needs no remote shell
	held    uint32        // number of the newest job stop (SIGTSTP) that the child has confirmed
	room    int           // bytes of Stdin that the child can still accept
	credit  int           // bytes of Output that the child may still send
	owed    int           // bytes of the child's Output that were forwarded, but not granted again yet
	times   *childTimes   // nil if no times are recorded

	old    Link   // lost child that this child replaces, if this child is a successor
	number uint32 // number of the wire.Replace that requested this successor

	// The following fields are used to repair the tree when the child is lost.
	key     job.NodeIndex // index that the child's node had at its launch, by which its agent is found
	below   []wire.Below  // children of the child, from its newest Below frames
	linked  time.Duration // time at which the child joined after a JoinChild; -joinAgain if this agent launched it
	loss    LinkLost      // loss of an earlier link, because of which JoinChild was needed
	heard   time.Duration // time of the last frame of the child before its loss
	session time.Duration // time that opening the session to the child, or to the child's lost parent, took
}

// checkBranches panics if an invariant of the children does not hold. If Config.Check is set, it is called at the end
// of each Step.
//
//  1. starts.inFlight is the number of children whose session is being opened.
//  2. finish.childrenEnded is the number of children that have ended. c.below records the same children as ended.
//  3. During the launch, all children but starts.reported are Waiting, Starting or Up. While the job runs, no child is
//     in one of these states.
//  4. Until the job is ending, a child that a successor will replace is Lost. It has no other successor.
//  5. No node belongs to two children.
//  6. Only a job that repairs its tree has children in the states Relinking, Resumed, Adopted and Reported. Only the
//     root has children in the state Coming.
//  7. No child with a link has a negative credit for output.
func (c *Core) checkBranches() {
	var all job.Parts
	seen := map[Link]bool{}
	must := func(holds bool, number int, l Link) {
		if !holds {
			panic(fmt.Sprintf("invariant %d, child %d", number, l))
		}
	}
	for i := range c.children {
		l, k := Link(i), &c.children[i]
		must(c.below.Ended(l) == k.In(child.Ended) && c.below.Exited(l) == k.In(child.HasExited), 2, l)
		if k.In(child.Replacing) {
			must((c.children[k.old].In(child.Lost) || c.stage == ending) && !seen[k.old], 4, l)
			seen[k.old] = true
		}
		for _, p := range c.partsOf(l) {
			must(len(all.Within(p.First, p.End())) == 0, 5, l)
			all = all.Add(p)
		}
		must(c.repairs() || !k.In(child.Relinking|child.Resumed|child.Adopted|child.Reported), 6, l)
		must(c.cfg.Root || !k.In(child.Coming), 6, l)
		must(!k.In(child.Linked) || k.credit >= 0, 7, l)
	}
	awaited := c.countIn(child.Waiting | child.Starting | child.Up)
	must(c.countIn(child.Opening) == c.starts.inFlight, 1, Up)
	must(c.countIn(child.Ended) == c.finish.childrenEnded, 2, Up)
	must(c.stage != launching || awaited == len(c.children)-c.starts.reported, 3, Up)
	must(c.stage != running || awaited == 0, 3, Up)
}

// countIn returns the number of children whose state is in set.
func (c *Core) countIn(set child.State) (n int) {
	for i := range c.children {
		if c.children[i].In(set) {
			n++
		}
	}
	return n
}

// addBranch adds a child in state s. The child will run on the first node of p and is responsible for all nodes of p.
func (c *Core) addBranch(p job.Part, t tried, s child.State) Link {
	c.below.Adopt()
	c.children = append(c.children, branch{
		Child: child.New(s), head: p.Slice(0, 1), part: job.Parts{p}, planned: p, tried: t, key: p.First,
		linked: -joinAgain, room: inputWindow,
		local: c.here(p) == 0 && !t.spare || t.spare && p.Nodes.At(0).Host == c.cfg.Policy.SpareHere,
	})
	return Link(len(c.children) - 1)
}

// partsOf returns the nodes of the job for which child l is responsible. It returns none for a child that is joining a
// running job, because its nodes are not part of the job yet. It returns none for a successor that is not ready,
// because the lost child still has the nodes.
func (c *Core) partsOf(l Link) job.Parts {
	if k := &c.children[l]; !k.In(child.Coming | child.Replacing) {
		return k.part
	}
	return nil
}

// host returns the name of the node on which the child runs.
func (k *branch) host() string { return k.head.Nodes.At(0).Host }

// tried records a failed attempt of another agent to start a node. The zero value means that there was none.
type tried struct {
	by, phase, cause string // host of the other agent, phase and reason of the failure
	spare            bool   // the node is a spare, a replacement or an added node, to which Config.Here does not apply
}

// secondTry is the factor by which the timeout of the second session to a node is shorter than that of the first. The
// shorter timeout suffices because other sessions have been opened in the meantime.
const secondTry = 3

// most returns StartChild.Most for the next session to the node. timeout is Launch.Timeout. If no session to the node
// has failed, most returns 0, which selects Launch.Timeout.
func (t tried) most(timeout time.Duration) time.Duration {
	if t.by == "" {
		return 0
	}
	return timeout / secondTry
}

// due records when a child should have started its share, the nodes that it got from the work queue of this agent.
type due struct {
	at    time.Duration // time at which this agent will ask the child to return nodes (wire.Steal); 0 means never
	every time.Duration // expected time from the Launch until the share has been started
	wait  time.Duration // delay between the next two Steals, doubled after each one
}

// forget moves the nodes of f, which could not be started, from k.part to k.dead. The root decides whether to replace
// them.
func (k *branch) forget(f wire.Fault) {
	end := f.Node + job.NodeIndex(f.Nodes)
	k.dead = k.dead.Add(k.part.Within(f.Node, end)...)
	k.part = k.part.Without(f.Node, end)
}

// here returns the offset in p of the node that is this machine, or -1 if p has no such node. Agents other than the
// root always get -1.
func (c *Core) here(p job.Part) int {
	here := c.recovery.Members().Here
	if at := job.NodeIndex(here); c.cfg.Root && here >= 0 && at >= p.First && at < p.End() {
		return int(at - p.First)
	}
	return -1
}

// hasNode reports whether the child's subtree has a node with the given index, or had one before nodes were dropped and
// indices changed. Nodes that are leaving or have left the job are included.
func (k *branch) hasNode(node job.NodeIndex) bool {
	return k.part.Has(node) || k.before.Has(node) || k.leaving.Has(node) || k.left.Has(node)
}

// hasRanks reports whether a single job.Part of the child's subtree has all of the count ranks from first on. It
// does not search k.before, because a child starts no rank before it knows which nodes were dropped.
func (k *branch) hasRanks(first job.Slot, count uint32) bool {
	for _, all := range []job.Parts{k.part, k.leaving, k.left} {
		for _, p := range all {
			if base := p.Nodes.Base(); first >= base && uint32(first-base) < p.Nodes.Ranks() {
				return count <= p.Nodes.Ranks()-uint32(first-base)
			}
		}
	}
	return false
}

// hasDaemon reports whether number is the index of a node or the slot of a rank in the child's subtree.
func (k *branch) hasDaemon(number uint32) bool {
	return k.hasNode(job.NodeIndex(number)) || k.hasRanks(job.Slot(number), 1)
}

// mayGive reports whether the child may return the count nodes from first on, or report that they could not be started.
// All of them must be in k.part, and the node on which the child runs must not be among them.
func (k *branch) mayGive(first job.NodeIndex, count uint32) bool {
	end := first + job.NodeIndex(count)
	return count > 0 && end > first && uint32(k.part.Within(first, end).Len()) == count && (k.head.First < first || k.head.First >= end)
}
