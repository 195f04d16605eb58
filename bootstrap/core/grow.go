package core

import (
	"fmt"
	"slices"
	"strings"

	"ibrun/bootstrap/core/child"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
	"ibrun/internal/plain"
)

// What the root does about a change of the job's size (docs/dev/decisions/0030-grow-and-shrink.md):
//
//	none --ResizeAsked, grow--> starting --all agents ready--> waiting --ranks call Resize--> none
//	                            starting --one fails--> given up: none
//	none --ResizeAsked, shrink--> waiting --ranks call Resize--> agreed --again--> leaving --Departed--> none

// ResizeAsked is the request of a user to the root to change the number of nodes of the job. The driver chooses the ID.
// The core answers with one or more ResizeTold.
type ResizeAsked struct {
	ID     uint32
	Hosts  []job.Run // hosts that each get a new node with Slots ranks; 0 means as many as on the first node
	Shrink uint32    // number of nodes that leave the job; used only if Hosts is empty
}

// ResizeTold reports the progress of a change to the caller. Refused is the reason why the size does not change,
// or empty. If Over is set, no further ResizeTold follows.
type ResizeTold struct {
	ID           uint32
	Refused      string
	Over         bool
	Nodes, Ranks uint32 // size of the job after the change
}

// JobResized tells the driver that the number of nodes of the job has changed. Job has the new layout.
type JobResized struct{ Job *job.Job }

func (ResizeAsked) IsEvent() {}
func (ResizeTold) IsEffect() {}
func (JobResized) IsEffect() {}

type growStep uint8

const (
	growNone growStep = iota
	growStarting
	growWaiting
	growAgreed
	growLeaving
)

// growing is the root's record of a change.
type growing struct {
	step     growStep
	id       uint32
	change   rankwire.Resize
	job      *job.Job // as new agents are told it
	nodes    job.Part // that come
	links    []Link   // of their agents
	next     int      // first that is not started
	can      bool     // the ranks have called Resize
	charm    bool     // they are a program of Charm++
	shrunken uint8    // how often nodes have left
}

// notResizable is why a job cannot change its size now; empty: it can.
func (c *Core) notResizable() string {
	g := &c.root.growing
	switch {
	case c.stage == ending:
		return "the job ends"
	case c.stage != running || !c.root.out.AllStarted:
		return "the job is being launched: ask again when its ranks run"
	case c.clock.stopped:
		return "the job is stopped; hint: ibrun ctl cont"
	case c.keepsSize():
		return "a job with --on-failure restart, restart-all or continue keeps its size"
	case !rankwire.Resizable(c.job.Layout):
		return "ranks are dealt to nodes in turn, or have an order of their own; hint: start the job with --map-by slot"
	case len(c.job.Programs) != 1 || len(c.job.Binding.Slots) > 0:
		return "a job of several programs, or with a rank file, keeps its size"
	case len(c.recovery.Members().Dropped) > 0:
		return "the job has begun without some of its nodes"
	case !g.can:
		return "its program has not called Resize of the package ibrun, and is none of Charm++ built for it " +
			"(--enable-shrinkexpand); programs of MPI and others cannot change their size"
	case g.step == growLeaving:
		return "nodes that leave the job have not ended yet"
	case g.step != growNone:
		return "another change waits for the program to call Resize"
	}
	return ""
}

func (c *Core) resizeAsked(ev ResizeAsked) {
	refuse := func(why string) { c.do(ResizeTold{ID: ev.ID, Refused: why, Over: true}) }
	if c.job == nil {
		refuse("the job is being launched: ask again when its ranks run")
		return
	}
	if why := c.notResizable(); why != "" {
		refuse(why)
		return
	}
	var why string
	if len(ev.Hosts) > 0 {
		why = c.grow(ev)
	} else {
		why = c.shrink(ev)
	}
	if why != "" {
		refuse(why)
	}
}

// shrink begins to take the last nodes out of the job, or says why it cannot.
func (c *Core) shrink(ev ResizeAsked) string {
	g, nodes := &c.root.growing, c.job.Layout.Nodes()
	switch {
	case nodes == 1:
		return "the job has one node, which stays"
	case ev.Shrink == 0 || ev.Shrink >= nodes:
		return fmt.Sprintf("the job has %s: from 1 to %d of them can leave", plain.Plural(int(nodes), "node"), nodes-1)
	case g.shrunken == job.MaxStart:
		return fmt.Sprintf("nodes have left %d times: no more can", job.MaxStart)
	}
	g.id, g.step = ev.ID, growWaiting
	g.change = rankwire.Resize{Layout: c.job.Layout.Without(job.NodeIndex(nodes-ev.Shrink), ev.Shrink)}
	g.nodes, g.links = job.Part{}, nil
	c.resizeWaits()
	return ""
}

// grow begins to start agents on hosts, or says why it cannot.
func (c *Core) grow(ev ResizeAsked) string {
	g, l, m := &c.root.growing, c.job.Layout, c.recovery.Members()
	_, each := l.SlotsOn(0)
	nodes, ranks, seen := uint64(l.Nodes()), uint64(l.Ranks()), map[string]bool{}
	runs := slices.Clone(ev.Hosts)
	for i := range runs {
		r := &runs[i]
		if r.Ranks = r.Slots; r.Ranks == 0 {
			r.Ranks = each
		}
		nodes, ranks = nodes+uint64(r.Count), ranks+uint64(r.Count)*uint64(r.Ranks)
		if r.Ranks > job.MaxRanksOnNode || nodes > job.MaxNodes || ranks > job.MaxRanks {
			return fmt.Sprintf("a job has at most %d ranks on a node, %d nodes and %d ranks", job.MaxRanksOnNode,
				job.MaxNodes, job.MaxRanks)
		}
		for k := range r.Count {
			host := r.Host(k)
			if seen[host] || m.HasHost(host) {
				return "the job has a node on " + host + " already"
			}
			seen[host] = true
		}
	}
	if l.Nodes() == 1 && c.resizing.count == 0 {
		return "the ranks of a job of one node have opened no network; hint: start it on two nodes"
	}
	come := job.Part{First: job.NodeIndex(l.Nodes()), Nodes: job.NewNodes(job.Slot(l.Ranks()), runs)}
	g.id, g.step, g.nodes, g.links, g.next = ev.ID, growStarting, come, nil, 0
	g.change = rankwire.Resize{Start: g.shrunken, Layout: m.All.Nodes.Join(come.Nodes).Layout()}
	j := resizedJob(c.job, g.change.Layout)
	j.Launch.StartBarrier, j.Launch.Timed, j.Launch.LateBinding = true, false, false
	j.Transport.Eager, j.Stdin = false, job.Stdin{Mode: job.StdinNone}
	if g.charm {
		j.Programs = restartingPrograms(j.Programs)
	}
	if j.Hosts != "" {
		j.Hosts = m.Hosts() + "," + come.Nodes.HostList()
	}
	g.job = j
	for i := range come.Nodes.Len() {
		k := c.addBranch(come.Slice(i, i+1), tried{spare: true}, child.GrowWaiting)
		c.below.Rest(k, true)
		c.doLookups(c.lookups.NoTableBelow(c.now, k))
		g.links = append(g.links, k)
	}
	c.starts.next = len(c.children)
	c.growMore()
	return ""
}

// growMore opens sessions to new nodes, as many as there is room for.
func (c *Core) growMore() {
	g := &c.root.growing
	for g.step == growStarting && g.next < len(g.links) && c.starts.inFlight < c.queue.Window {
		g.next++
		c.happen(g.links[g.next-1], child.Start, nil)
	}
}

// grown looks whether all new agents are ready.
func (c *Core) grown() {
	g := &c.root.growing
	if g.step != growStarting {
		return
	}
	c.growMore()
	for _, l := range g.links {
		if !c.children[l].In(child.Settled) {
			return
		}
	}
	g.step = growWaiting
	c.resizeWaits()
}

// lastLine is what a session said last, in parentheses; empty: nothing.
func lastLine(tail string) string {
	tail = strings.TrimSpace(tail)
	if tail == "" {
		return ""
	}
	return " (" + tail[strings.LastIndexByte(tail, '\n')+1:] + ")"
}

// cancelGrowth cancels the growth of the job, because the new agent on host was not started or was lost. The job
// continues with its present size. cause is a ChildFailed or a LinkLost.
func (c *Core) cancelGrowth(host string, cause any) {
	why := endOf(cause)
	if f, ok := cause.(ChildFailed); ok {
		why += lastLine(f.Tail)
	}
	c.giveUpResize(fmt.Sprintf("%s could not be started: %s; the job goes on with %s", host, why,
		plain.Plural(int(c.job.Layout.Nodes()), "node")))
}

// giveUpResize ends a change that the ranks have not begun to make.
func (c *Core) giveUpResize(why string) {
	g := &c.root.growing
	if g.step != growStarting && g.step != growWaiting {
		return // it was given up before
	}
	c.do(ResizeTold{ID: g.id, Refused: why, Over: true})
	waited := g.step == growWaiting
	g.step = growNone
	for _, o := range g.links {
		c.happen(o, child.End, wire.End{})
	}
	if waited {
		c.resize(rankwire.Resize{Layout: c.job.Layout}) // there is nothing to wait for
	}
}

// resizeWaits tells the ranks and the caller that the program has to call Resize.
func (c *Core) resizeWaits() {
	g := &c.root.growing
	g.change.Step = rankwire.ResizeWaits
	c.do(ResizeTold{ID: g.id, Nodes: g.change.Layout.Nodes(), Ranks: g.change.Layout.Ranks()})
	c.resize(g.change)
}

// decideResize says what becomes of a Resize that all ranks have called, and releases it.
func (c *Core) decideResize(part rankwire.Release) {
	g := &c.root.growing
	g.can = true
	shrinks := len(g.links) == 0
	switch {
	case c.stage != running:
	case g.step == growWaiting && shrinks:
		g.step, g.change.Step = growAgreed, rankwire.ResizeAgreed
		c.resize(g.change)
	case g.step == growWaiting, g.step == growAgreed:
		c.takeSize()
	}
	c.doCollectives(c.collectives.Release(part))
	if g.step == growWaiting { // a node that comes takes no part in this one
		c.enterAll(part.Op)
	}
}

// takeSize makes the new layout the job's.
func (c *Core) takeSize() {
	g, m := &c.root.growing, c.recovery.Members()
	g.change.Step = rankwire.ResizeDone
	if nodes := int(g.change.Layout.Nodes()); g.step == growAgreed {
		g.step = growLeaving
		g.shrunken++
		m.Resize(m.All.Nodes.Slice(0, nodes))
	} else {
		m.Resize(m.All.Nodes.Join(g.nodes.Nodes))
	}
	c.resize(g.change)
	c.do(JobResized{c.job})
	if g.step == growLeaving {
		c.checkDeparted()
	}
}

// enterAll lets the ranks of new nodes start.
func (c *Core) enterAll(op uint32) {
	g := &c.root.growing
	if g.change.Step != rankwire.ResizeDone {
		return
	}
	for _, l := range g.links {
		c.happen(l, child.Enter, wire.Enter{Op: op, Start: g.change.Start, Resizes: c.resizing.count, Floors: c.recovery.RankFloors()})
	}
	c.below.Route(c.partsOf)
	c.resizeOver()
}

// growEnds gives new agents up when there is nothing else left of the job.
func (c *Core) growEnds() {
	g := &c.root.growing
	if g.step != growStarting && g.step != growWaiting || len(g.links) == 0 || c.stage != running ||
		c.countIn(child.Coming|child.Ended) < len(c.children) {
		return
	}
	g.step = growNone
	c.do(ResizeTold{ID: g.id, Refused: "the job has ended", Over: true})
	for _, l := range g.links {
		c.happen(l, child.End, wire.End{})
	}
}

func (c *Core) resizeOver() {
	g := &c.root.growing
	g.step = growNone
	c.do(ResizeTold{ID: g.id, Over: true, Nodes: c.job.Layout.Nodes(), Ranks: c.job.Layout.Ranks()})
}
