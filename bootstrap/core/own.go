package core

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"ibrun/bootstrap/frame"
	"ibrun/bootstrap/rankwire"
	"ibrun/bootstrap/wire"
	"ibrun/fabric"
	"ibrun/job"
)

// local is what this node's agent has of one of its ranks. The fields up to notices are of its
// last program.
type local struct {
	published bool
	later     bool // it will publish when it is wanted
	tallied   bool
	checking  bool // it has been asked whether it runs
	tuple     fabric.Tuple
	values    map[string][]byte
	notices   int // that it has sent
}

// maxNotices bounds what the user of ibrun is told on behalf of one program of a rank: the package
// ibrun sends three at most, and a faulty program shall not fill the links.
const maxNotices = 4

// has reports whether a program of a rank has published its address that is new enough.
func (c *Core) has(rank job.Slot, least uint16) bool {
	p := c.below.Own.Of(rank)
	return c.local(rank).published && !p.Ended() && p.Epoch() >= least
}

// own is this node's side of resolution: its block, its values, and questions
// that wait for them.
type own struct {
	bases  []fabric.Tuple // what the ranks' tuples share, one for each port that ranks use
	block  []byte         // encoded, nil when out of date
	parked []parked
}

type parked struct {
	requester
	partialAt time.Duration // when a partial block will do; 0: the rank has not published
	unproven  bool          // the rank has not shown since that it runs
}

func (c *Core) local(rank job.Slot) *local { return &c.ranks.locals[c.below.Own.Index(rank)] }

// rankFrame takes a frame from a rank of this node.
func (c *Core) rankFrame(rank job.Slot, m frame.Message) {
	r, p := c.local(rank), c.below.Own.Of(rank)
	if _, hello := m.(rankwire.Hello); hello && !p.Exited() {
		c.welcome(rank)
		return
	}
	if p.Ended() {
		return
	}
	switch m := m.(type) {
	case rankwire.Publish:
		c.publish(rank, r, m)
	case rankwire.Later:
		r.later = !r.published
		c.unpark()
	case rankwire.Ask:
		c.asked(requester{rank: rank, here: true, ask: m})
	case rankwire.Put:
		c.put(rank, r, m)
	case rankwire.Collect:
		c.doCollectives(c.collectives.Join(rank, m))
	case rankwire.Pair:
		c.doPairs(c.pairs.Ask(rank, m.Rank))
	case rankwire.Tally:
		if c.job.Transport.Stats && !r.tallied {
			r.tallied = true
			c.tally.Add(m.Of)
		}
	case rankwire.Notice:
		if r.notices++; r.notices <= maxNotices {
			c.tellUser(rankwire.Notice{Host: c.cfg.Host, Text: m.Text})
		}
	case rankwire.Name:
		m.Rank = rank
		c.nameUp(m)
	case rankwire.SpawnJob:
		m.Rank = rank
		c.spawnAsked(m)
	case rankwire.Abort:
		c.aborted(rank, m)
	case rankwire.Finalize:
		c.rankEnded(rank, false)
	}
}

// welcome takes a program into the job, which the driver has made sure is the
// rank's only one. What the one before it has said is of no meaning to it.
func (c *Core) welcome(rank job.Slot) {
	p, r := c.below.Own.Of(rank), c.local(rank)
	if !p.Join() {
		c.do(SendRank{rank, rankwire.Refused{Text: "this rank has run 65,535 programs that joined the job: no more can"}})
		return
	}
	if p.Epoch() > 1 {
		c.pairs.Forget(rank)
	}
	*r, c.own.block = local{}, nil
	c.do(SendRank{rank, rankwire.Welcome{
		JobID: c.job.ID, Rank: rank, Epoch: p.Epoch(), Op: c.collectives.Joined(rank), Layout: c.job.Layout,
		Key: fabric.DeriveKey(c.job.Secret), How: c.job.Transport, Path: c.cfg.Path,
	}})
	c.tellFailures(rank)
	c.doPairs(c.pairs.Retry())
}

// aborted says that a rank wants the job to end.
func (c *Core) aborted(rank job.Slot, m rankwire.Abort) {
	c.fault(wire.Fault{
		What: wire.FaultAbort, Node: c.ranks.index, Nodes: 1, Rank: rank, Count: 1, Status: exitStatus(m.Code),
		Host: c.cfg.Host, Parent: c.cfg.Host, Cause: m.Text,
	})
}

func (c *Core) publish(rank job.Slot, r *local, m rankwire.Publish) {
	base := m.Tuple
	base.Num = 0
	o := &c.own
	switch {
	case r.published: // one address per rank; but it runs
		c.proven(rank, r)
		return
	case len(o.bases) > 0 && !alike(base, o.bases[0]):
		// One block holds those of a node. Who asks for this rank would wait for ever.
		c.aborted(rank, rankwire.Abort{Code: 1, Text: fmt.Sprintf("its address (%v) is of another network than those of the other ranks there (%v): choose ports or interfaces that are alike with --hca or --iface, or use --fabric udp", m.Tuple, o.bases[0])})
		return
	}
	if !slices.Contains(o.bases, base) {
		if len(o.bases) == fabric.MaxBases {
			return
		}
		o.bases = append(o.bases, base)
	}
	r.published, r.later, r.tuple, o.block = true, false, m.Tuple, nil
	c.unpark()
}

// alike reports whether tuples can be in one block.
func alike(a, b fabric.Tuple) bool {
	return a.Kind == b.Kind && a.Path == b.Path && a.Rails == b.Rails
}

// rankEnded marks a rank whose program will not answer any more.
func (c *Core) rankEnded(rank job.Slot, failed bool) {
	c.rankChanged(rank, failed, c.below.Own.Of(rank).End(failed))
}

// rankOver marks a rank that has exited, or was never started.
func (c *Core) rankOver(rank job.Slot, failed bool) {
	c.rankChanged(rank, failed, c.below.Own.Of(rank).Exit(failed))
}

// rankChanged looks again at what waits for a rank. First: its program was in the job until now.
func (c *Core) rankChanged(rank job.Slot, failed, first bool) {
	if first {
		c.own.block = nil
		if failed {
			c.rankFailed(rank)
		}
	}
	c.unpark()
	c.doPairs(c.pairs.Retry())
	c.doCollectives(c.collectives.Check())
}

// complete reports whether the node's block will not change soon by itself, but
// for ranks that end. Where one rank runs its next program, the others will.
func (c *Core) complete() bool {
	newest := uint16(0)
	for _, p := range c.below.Own.All() {
		newest = max(newest, p.Epoch())
	}
	for rank, p := range c.below.Own.All() {
		if !c.has(rank, newest) && !p.Left(newest) && !c.local(rank).later {
			return false
		}
	}
	return true
}

// ownBlock is this node's block as it is now.
func (c *Core) ownBlock() []byte {
	o := &c.own
	if o.block != nil {
		return o.block
	}
	b := fabric.Block{Node: uint32(c.ranks.index), First: uint32(c.below.Own.First()), Ranks: make([]fabric.Entry, c.below.Own.Count())}
	b.Base.Kind = fabric.NONE
	if len(o.bases) > 0 {
		b.Base, b.More = o.bases[0], o.bases[1:]
	}
	for rank, p := range c.below.Own.All() {
		if r := c.local(rank); r.published && !p.Ended() {
			base := r.tuple
			base.Num = 0
			b.Ranks[c.below.Own.Index(rank)] = fabric.Entry{Epoch: p.Epoch(), Num: r.tuple.Num, Base: uint8(slices.Index(o.bases, base))}
		}
	}
	o.block = b.Append(nil)
	return o.block
}

// askOwn answers a question about a rank of this node, or parks it: not being
// published yet is a state, not a time-out.
func (c *Core) askOwn(a requester) {
	p := parked{requester: a, unproven: c.check(a)}
	if !c.tryOwn(p) {
		c.requestPublish(a)
		if c.has(a.ask.Rank, a.ask.Least) && a.ask.Key == "" {
			p.partialAt = c.now + partialAfter
			c.wakeAt(p.partialAt)
		}
		c.own.parked = append(c.own.parked, p)
	}
}

// check asks a rank whether it runs, if that is the question: it may be stopped.
func (c *Core) check(a requester) bool {
	r := c.local(a.ask.Rank)
	if !a.ask.Fresh || a.ask.Key != "" || !r.published || c.below.Own.Of(a.ask.Rank).Ended() {
		return false
	}
	if !r.checking {
		r.checking = true
		c.do(SendRank{a.ask.Rank, rankwire.Wanted{}})
	}
	return true
}

// proven answers those who asked whether a rank runs.
func (c *Core) proven(rank job.Slot, r *local) {
	r.checking = false
	for i := range c.own.parked {
		if p := &c.own.parked[i]; p.ask.Rank == rank {
			p.unproven = false
		}
	}
	c.unpark()
}

// requestPublish tells a rank that it is wanted, if it waits for that.
func (c *Core) requestPublish(a requester) {
	if r := c.local(a.ask.Rank); r.later && a.ask.Key == "" && a.ask.Least <= c.below.Own.Of(a.ask.Rank).Epoch() {
		r.later = false
		c.do(SendRank{a.ask.Rank, rankwire.Wanted{}})
	}
}

// tryOwn answers if it can.
func (c *Core) tryOwn(p parked) bool {
	a, partialAt := p.requester, p.partialAt
	r := c.below.Own.Of(a.ask.Rank)
	switch v, ok := c.local(a.ask.Rank).values[a.ask.Key]; {
	case ok && a.ask.Least <= r.Epoch():
		c.reply(a, rankwire.Found, v)
	case r.Left(a.ask.Least) && r.Failed():
		c.reply(a, rankwire.Failed, nil)
	case r.Left(a.ask.Least):
		c.reply(a, rankwire.Exited, nil)
	case a.ask.Key == "" && c.has(a.ask.Rank, a.ask.Least) && !p.unproven && (c.complete() || partialAt > 0 && partialAt <= c.now):
		c.reply(a, rankwire.Found, c.ownBlock())
	default:
		return false
	}
	return true
}

// unpark looks again at what waits for this node's ranks.
func (c *Core) unpark() {
	waiting := c.own.parked
	c.own.parked = nil
	for _, p := range waiting {
		switch published := p.ask.Key == "" && c.has(p.ask.Rank, p.ask.Least); {
		case !published: // or not any more: another program has joined
			p.partialAt = 0
		case p.partialAt == 0:
			p.partialAt = c.now + partialAfter
		}
		if c.tryOwn(p) {
			continue
		}
		c.requestPublish(p.requester)
		if p.partialAt > c.now { // else it waits for the rank, not for the time
			c.wakeAt(p.partialAt)
		}
		c.own.parked = append(c.own.parked, p)
	}
	c.table.publish(c)
}

func (c *Core) put(rank job.Slot, r *local, m rankwire.Put) {
	old, again := r.values[m.Key]
	if again {
		c.do(SendRank{rank, rankwire.PutDone{Again: !bytes.Equal(old, m.Value)}})
		return
	}
	if r.values == nil {
		r.values = map[string][]byte{}
	}
	r.values[m.Key] = m.Value
	c.do(SendRank{rank, rankwire.PutDone{}})
	c.unpark()
}
