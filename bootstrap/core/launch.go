package core

import (
	"time"

	"ibrun/bootstrap/tree"
	"ibrun/bootstrap/wire"
	"ibrun/job"
)

// A session that takes longer than lateAfter is named to the user, and again
// each lateEvery.
const (
	lateAfter = 3 * time.Second
	lateEvery = 5 * time.Second
)

// The states of a child.
//
//	waiting --window--> starting --ChildUp--> up --Ready--> ready --Exit--> gone
//	starting --ChildFailed--> gone; up, ready --link lost--> gone
type kidState uint8

const (
	kidWaiting kidState = iota
	kidStarting
	kidUp
	kidReady
	kidGone
)

type kid struct {
	life
	nodes   job.Nodes // its subtree
	first   uint32    // index of its first node
	state   kidState
	started time.Duration
	phase   string
	local   bool
	exited  bool   // its Exit came
	tabled  bool   // its Blocks came
	op      uint32 // the last collective that its subtree has joined
	wish    uint32 // fence of the pool that it waits for; 0: none
	gave    uint32 // fence of the last pool that it gave to
	room    int    // bytes of Stdin it can take
	owed    int    // bytes of its Output taken and not granted back yet
	times   *kidTimes
}

// starts counts the launch.
type starts struct {
	next     int // first child not started
	inFlight int
	settled  int // children that are ready or gone
	up       uint32
	failed   uint32
	readied  bool
	spawned  bool
	window   int
	ranks    uint32        // of this subtree
	told     time.Duration // when late sessions were last named; 0: never
}

// start begins the launch of a subtree. The root passes a whole job.
func (c *Core) start(m wire.Launch) {
	c.stage = launching
	c.job = m.Job
	c.level = int(m.Level)
	c.openTimes(m.First)
	c.starts.window = c.cfg.Window
	if m.Job.Launch.Batch > 0 {
		c.starts.window = int(m.Job.Launch.Batch)
	}
	// The text was written by this build's own root.
	c.shape, _ = tree.Parse(m.Job.Launch.Tree)
	below, first := m.Nodes, m.First
	if !c.cfg.Root {
		n := m.Nodes.At(0)
		c.cfg.Host = n.Host
		c.ranks.open(n, m.First)
		c.do(Spawn{m.Job, n, m.First})
		below, first = m.Nodes.Slice(1, m.Nodes.Len()), m.First+1
		c.starts.up = 1
		c.starts.ranks = m.Nodes.Ranks()
	} else {
		c.starts.spawned = true
	}
	c.adopt(below, first)
	c.flow.open(len(c.kids))
	c.input.open(c)
}

// adopt lays the children of the tree over the nodes below this agent. The
// node that is this machine heads a subtree of the root, so that it needs no
// session: the subtree it lies in is cut there.
func (c *Core) adopt(below job.Nodes, first uint32) {
	here := -1
	if c.cfg.Root {
		here = c.cfg.Here
	}
	at := 0
	add := func(lo, hi int) {
		if lo < hi {
			c.kids = append(c.kids, kid{
				nodes: below.Slice(lo, hi), first: first + uint32(lo),
				local: lo == here, room: inputWindow,
			})
		}
	}
	for _, size := range c.shape.Split(c.level, below.Len()+1) {
		cut := at
		if here > at && here < at+size {
			cut = here
		}
		add(at, cut)
		add(cut, at+size)
		at += size
	}
}

func (c *Core) startMore() {
	s := &c.starts
	for c.stage == launching && s.next < len(c.kids) && s.inFlight < s.window {
		k := &c.kids[s.next]
		k.state, k.started, k.phase = kidStarting, c.now, "start"
		c.markKid(k, job.Started)
		s.inFlight++
		c.do(StartChild{Link(s.next), k.nodes.At(0), k.local})
		s.next++
	}
}

func (c *Core) childUp(ev ChildUp) {
	l := ev.Child
	k := &c.kids[l]
	if k.state != kidStarting {
		return
	}
	c.starts.inFlight--
	k.state = kidUp
	k.life = life{live: true, heard: c.now}
	c.markKid(k, job.Launched)
	if k.times != nil {
		k.times.head.CPU = ev.CPU
	}
	c.send(l, wire.Launch{Job: c.job, Nodes: k.nodes, First: k.first, Level: uint32(c.level + 1), Credit: uint32(c.flow.window)})
	c.routeUp(l)
}

func (c *Core) childPhase(ev ChildPhase) {
	if k := &c.kids[ev.Child]; k.state == kidStarting {
		k.phase = ev.Phase
		if ev.Moment < job.Moments {
			c.markKid(k, ev.Moment)
		}
	}
}

func (c *Core) childFailed(ev ChildFailed) {
	k := &c.kids[ev.Child]
	if k.state != kidStarting {
		return
	}
	c.starts.inFlight--
	c.drop(ev.Child, job.Status{Kind: job.NotRun})
	c.fault(wire.Fault{
		What: wire.FaultLaunch, Node: k.first, Nodes: uint32(k.nodes.Len()), Host: k.nodes.At(0).Host,
		Parent: c.cfg.Host, Phase: ev.Phase, Cause: ev.Cause, Tail: ev.Tail,
	})
}

func (c *Core) childReady(l Link, m wire.Ready) {
	k := &c.kids[l]
	if k.state != kidUp {
		return
	}
	k.state = kidReady
	c.markKid(k, job.Heard)
	c.starts.settled++
	c.progress(k)
	c.starts.up += m.Up
	c.starts.failed += m.Failed
}

func (c *Core) spawned(ev Spawned) {
	c.starts.spawned = true
	c.markOwn(job.RanksUp)
	for _, f := range ev.Failed {
		c.ranks.end(f.Rank, job.Status{Kind: job.NotRun, Code: f.Code})
		c.rankEnded(f.Rank, true)
		c.ranks.undrained--
		c.deaf(f.Rank)
	}
	if c.stage == ending && c.ranks.alive > 0 {
		c.ranks.stopped = true
		c.do(SignalRanks{sigTerm})
		if c.finish.killed {
			c.do(KillRanks{})
		}
	}
	if len(ev.Failed) > 0 && c.stage != ending {
		f := ev.Failed[0]
		c.fault(wire.Fault{
			What: wire.FaultSpawn, Node: c.ranks.index, Nodes: 1, Rank: f.Rank, Count: uint32(len(ev.Failed)),
			Status: job.Status{Kind: job.NotRun, Code: f.Code}, Host: c.cfg.Host, Parent: c.cfg.Host, Cause: f.Cause,
		})
	}
}

// checkReady reports the subtree once, when every child is ready or gone.
func (c *Core) checkReady() {
	s := &c.starts
	if c.stage != launching || s.readied || !s.spawned || s.settled < len(c.kids) {
		return
	}
	s.readied = true
	c.stage = running
	if c.cfg.Root {
		c.rootReady()
		return
	}
	c.sendTimes()
	c.send(Up, wire.Ready{Up: s.up, Failed: s.failed})
}

// lateSessions names what the launch waits for.
func (c *Core) lateSessions() {
	s := &c.starts
	if c.stage != launching || s.told > 0 && c.now-s.told < lateEvery {
		return
	}
	var w wire.Waiting
	for i := range c.kids[:s.next] {
		k := &c.kids[i]
		if k.state == kidStarting && c.now-k.started >= lateAfter && len(w.Items) < maxLate {
			w.Items = append(w.Items, wire.Late{Node: k.first, Host: k.nodes.At(0).Host, Phase: k.phase, ForMs: ms(c.now - k.started)})
		}
	}
	if len(w.Items) > 0 {
		s.told = c.now
		c.waiting(w)
	}
}

// maxLate bounds one Waiting: a person reads a few names, not a thousand.
const maxLate = 8

func (c *Core) waiting(w wire.Waiting) {
	if c.cfg.Root {
		c.do(Report{w})
		return
	}
	c.send(Up, w)
}

func ms(d time.Duration) uint32 { return uint32(min(d.Milliseconds(), 1<<31)) }
