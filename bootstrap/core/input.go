package core

import (
	"ibrun/bootstrap/core/child"
	"ibrun/bootstrap/wire"
	"ibrun/internal/job"
)

// inputWindow is the standard input, in bytes, that one hop may have on the
// way: enough for a bulk transfer over a millisecond of latency.
const inputWindow = 256 << 10

func (in *input) push(m wire.Stdin) {
	in.queue = append(in.queue, m)
	in.room, in.over = in.room-len(m.Data), m.EOF
}

// reads reports whether one of some ranks reads standard input.
func (c *Core) reads(first job.Slot, count uint32) bool {
	s := c.job.Stdin
	return s.Mode == job.StdinAll && count > 0 || s.Mode == job.StdinOne && s.Rank >= first && uint32(s.Rank-first) < count
}

// open begins to read, at the root.
func (in *input) open(c *Core) {
	in.room = inputWindow
	if c.cfg.Root && c.job.Stdin.Mode != job.StdinNone {
		c.do(ReadStdin{inputWindow})
	}
}

// openChildren finds the readers below this agent, when it is certain who they are.
func (in *input) openChildren(c *Core) {
	for i := range c.children {
		if c.hasReaders(Link(i)) {
			in.children = append(in.children, Link(i))
		}
	}
}

// openOwn finds the readers of this node, before they start.
func (in *input) openOwn(c *Core) {
	in.own = map[job.Slot]int{}
	for r := range c.below.Own.All() {
		if c.reads(r, 1) {
			in.own[r] = inputWindow
		}
	}
}

// pumpInput passes on what every reader has room for. Input that nobody reads
// any more is taken and dropped, so that its sender is not held up.
func (c *Core) pumpInput() {
	in := &c.input
	if c.stage == launching {
		return // a reader that is not up yet would miss it
	}
	for len(in.queue) > 0 && c.inputRoom(len(in.queue[0].Data)) {
		m := in.queue[0]
		in.queue = in.queue[1:]
		if c.repairs() {
			c.repair.input.Add(m, len(m.Data), 2*inputWindow)
		}
		for _, l := range in.children {
			if c.hasLink(l) {
				c.children[l].room -= len(m.Data)
				c.send(l, m)
			}
		}
		for r := range c.below.Own.All() {
			if _, reads := in.own[r]; reads {
				in.own[r] -= len(m.Data)
				c.do(Feed{r, m.Data, m.EOF, m.Window})
			}
		}
		in.owed += len(m.Data)
		in.eof = in.eof || m.EOF
	}
	if in.owed >= inputWindow/4 && !in.eof {
		if c.cfg.Root {
			c.do(ReadStdin{in.owed})
		} else {
			c.send(Up, wire.StdinRoom{N: uint32(in.owed)})
		}
		in.room, in.owed = in.room+in.owed, 0
	}
}

func (c *Core) inputRoom(n int) bool {
	for _, l := range c.input.children {
		if k := &c.children[l]; k.In(child.Linked) && k.room < n || k.In(child.Relinking|child.Resumed) {
			return false
		}
	}
	for _, room := range c.input.own {
		if room < n {
			return false
		}
	}
	return true
}

func (c *Core) rankInputRead(ev RankInputRead) {
	if _, reads := c.input.own[ev.Rank]; reads {
		c.input.own[ev.Rank] += ev.N
	}
}

// closeInput records that a rank of this node reads no more standard input.
func (c *Core) closeInput(rank job.Slot) { delete(c.input.own, rank) }

func (c *Core) stdinRead(ev StdinRead) {
	if !c.input.eof { // nothing follows the end, not even a size
		c.input.push(wire.Stdin{Data: ev.Data, EOF: ev.EOF, Window: ev.Window})
	}
}
