package core

import (
	"ibrun/bootstrap/wire"
	"ibrun/job"
)

// inputWindow is the standard input, in bytes, that one hop may have on the
// way: enough for a bulk transfer over a millisecond of latency.
const inputWindow = 256 << 10

// input is standard input on its way to the ranks that read it. It goes to
// all readers in step: the slowest one sets the pace.
type input struct {
	queue []wire.Stdin
	kids  []Link         // children with readers
	own   map[uint32]int // readers of this node: bytes each can take
	owed  int            // bytes passed on and not yet reported as room
	eof   bool
}

func (in *input) push(m wire.Stdin) { in.queue = append(in.queue, m) }

// open finds the readers below this agent.
func (in *input) open(c *Core) {
	s := c.job.Stdin
	if s.Mode == job.StdinNone {
		return
	}
	reads := func(first, count uint32) bool {
		return s.Mode == job.StdinAll && count > 0 || s.Rank >= first && s.Rank-first < count
	}
	for i := range c.kids {
		if n := c.kids[i].nodes; reads(n.Base(), n.Ranks()) {
			in.kids = append(in.kids, Link(i))
		}
	}
	in.own = map[uint32]int{}
	for i := range c.ranks.count {
		if r := c.ranks.first + i; reads(r, 1) {
			in.own[r] = inputWindow
		}
	}
	if c.cfg.Root {
		c.do(ReadStdin{inputWindow})
	}
}

// pumpInput passes on what every reader has room for. Input that nobody reads
// any more is taken and dropped, so that its sender is not held up.
func (c *Core) pumpInput() {
	in := &c.input
	if c.stage == launching && !c.inputOpen() {
		return
	}
	for len(in.queue) > 0 && c.inputRoom(len(in.queue[0].Data)) {
		m := in.queue[0]
		in.queue = in.queue[1:]
		for _, l := range in.kids {
			if c.kids[l].life.live {
				c.kids[l].room -= len(m.Data)
				c.send(l, m)
			}
		}
		for i := range c.ranks.count {
			r := c.ranks.first + i
			if _, reads := in.own[r]; reads {
				in.own[r] -= len(m.Data)
				c.do(Feed{r, m.Data, m.EOF})
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
		in.owed = 0
	}
}

// inputOpen reports whether every reader has been started: a child that is
// not up yet would miss what is sent now.
func (c *Core) inputOpen() bool {
	for _, l := range c.input.kids {
		if s := c.kids[l].state; s == kidWaiting || s == kidStarting {
			return false
		}
	}
	return true
}

func (c *Core) inputRoom(n int) bool {
	for _, l := range c.input.kids {
		if k := &c.kids[l]; k.life.live && k.room < n {
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

func (c *Core) rankTook(ev RankTook) {
	if _, reads := c.input.own[ev.Rank]; reads {
		c.input.own[ev.Rank] += ev.N
	}
}

// deaf takes a rank from the readers.
func (c *Core) deaf(rank uint32) { delete(c.input.own, rank) }

func (c *Core) stdinRead(ev StdinRead) {
	c.input.push(wire.Stdin{Data: ev.Data, EOF: ev.EOF})
}
