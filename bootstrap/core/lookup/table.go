package lookup

import (
	"time"

	"ibrun/bootstrap/core/subtree"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// table is eager resolution: the blocks of all nodes rise once, each subtree's when it is complete,
// and the whole table comes down.
type table struct {
	blocks   frame.Values // of the subtrees that have reported
	children []tablePart  // state of each child's blocks, indexed by link
	reported int          // number of children whose state is not partMissing
	sent     bool
	here     bool
	early    []requester // questions that wait for the table
	giveUp   time.Duration
}

// tablePart is the state of a child's blocks in the table.
type tablePart uint8

const (
	partMissing tablePart = iota // the child's blocks have not come yet
	partHere                     // the child's blocks have come, or may be lost with its old parent; it gets the table
	partNone                     // the child ended before its blocks came, or joined a running job; it gets no table
)

// tablePatience is how long a question waits for the table. A node whose ranks do not speak to
// ibrun would hold it up for ever; then the tree is asked.
const tablePatience = 2 * time.Second

// waitsForTable parks a question until the table is here, in eager mode.
func (l *Lookups) waitsForTable(a requester) bool {
	t := &l.table
	if !l.waits || t.here || a.ask.Fresh || a.ask.Key != "" {
		return false
	}
	return l.park(a)
}

// park keeps a question until the table is here, unless that takes too long.
func (l *Lookups) park(a requester) bool {
	t := &l.table
	if t.giveUp == 0 {
		t.giveUp = l.now + tablePatience
		l.wake(t.giveUp)
	}
	if l.now >= t.giveUp {
		return false
	}
	t.early = append(t.early, a)
	return true
}

// tableDue asks the tree when the table has not come in time.
func (l *Lookups) tableDue() {
	t := &l.table
	if t.giveUp > 0 && l.now >= t.giveUp && len(t.early) > 0 {
		l.flush()
	}
	if len(t.early) > 0 {
		l.wake(t.giveUp)
	}
}

// Launched sends this subtree's blocks up if they are complete: no child will be added.
func (l *Lookups) Launched(now time.Duration) []Effect {
	l.now = now
	l.publishTable()
	return l.done()
}

// TableBelow takes the blocks of a child's subtree.
func (l *Lookups) TableBelow(now time.Duration, child subtree.Link, blocks frame.Values) []Effect {
	l.now = now
	l.table.blocks.Add(blocks)
	l.becomePart(child, partHere)
	l.publishTable()
	return l.done()
}

// NoTableBelow stops waiting for the blocks of a child that has ended or has joined a running job.
func (l *Lookups) NoTableBelow(now time.Duration, child subtree.Link) []Effect {
	l.now = now
	if l.part(child) == partMissing {
		l.becomePart(child, partNone)
		l.publishTable()
	}
	return l.done()
}

// becomePart sets the state of a child's blocks, which was partMissing.
func (l *Lookups) becomePart(child subtree.Link, to tablePart) {
	for int(child) >= len(l.table.children) {
		l.table.children = append(l.table.children, partMissing)
	}
	l.table.children[child] = to
	l.table.reported++
}

// part returns the state of a child's blocks.
func (l *Lookups) part(child subtree.Link) tablePart {
	if int(child) < len(l.table.children) {
		return l.table.children[child]
	}
	return partMissing
}

// publishTable sends this subtree's blocks up when they are complete.
func (l *Lookups) publishTable() {
	t := &l.table
	if !l.Eager || t.sent || !l.below.Launched || t.reported < l.below.Children() || !l.complete() {
		return
	}
	t.sent = true
	if l.below.Root {
		l.takeTable(carried(t.blocks))
		return
	}
	if own := l.Known(); own != nil {
		t.blocks.Add(frame.NewValues(own))
	}
	if l.waits || t.blocks.Len() > 0 { // where nobody waits, nothing need not be said
		l.sendTable(subtree.Up, carried(t.blocks))
	}
}

// carried is blocks, or none if they are too many for a frame: they are asked for one by one then.
func carried(blocks frame.Values) frame.Values {
	if blocks.Size() > rankwire.MaxGather {
		return frame.Values{}
	}
	return blocks
}

// sendTable puts addresses on a link, and counts them.
func (l *Lookups) sendTable(to subtree.Link, blocks frame.Values) {
	l.CountBytes(blocks)
	l.do(Effect{Do: Table, To: Neighbour(to), Blocks: blocks})
}

// CountBytes counts addresses that are put on a link.
func (l *Lookups) CountBytes(blocks frame.Values) {
	for v := range blocks.All() {
		l.AddressBytes += uint64(len(v))
	}
}

// Table takes the blocks of all nodes and sends them to all children except those in partNone.
func (l *Lookups) Table(now time.Duration, blocks frame.Values) []Effect {
	l.now = now
	l.takeTable(blocks)
	return l.done()
}

func (l *Lookups) takeTable(blocks frame.Values) {
	l.table.here, l.table.blocks = true, frame.Values{}
	for i := range l.below.Children() {
		if child := subtree.Link(i); l.part(child) != partNone {
			l.sendTable(child, blocks)
		}
	}
	l.cache.open(blocks, l.below.Layout.Nodes())
	l.flush()
}

// flush looks up what waited for the table.
func (l *Lookups) flush() {
	early := l.table.early
	l.table.early = nil
	for _, a := range early {
		l.lookUp(a)
	}
}

// TableAwaited reports whether the parent may send the table.
func (l *Lookups) TableAwaited() bool { return l.Eager && !l.table.here }

// TableLie says what of a child's blocks cannot be; empty: nothing. Nodes is how many the child
// has, and has says which they are.
func (l *Lookups) TableLie(
	child subtree.Link, blocks frame.Values, nodes int, has func(job.NodeIndex) bool,
) string {
	if !l.Eager || l.part(child) != partMissing {
		return "that nobody wants"
	}
	return l.BlocksLie(blocks, nodes, has)
}

// BlocksLie is TableLie for blocks that were fetched.
func (l *Lookups) BlocksLie(blocks frame.Values, nodes int, has func(job.NodeIndex) bool) string {
	if blocks.Len() > nodes {
		return "of more nodes than it has"
	}
	for value := range blocks.All() {
		if node, ok := blockNode(value); !ok || !has(node) || !l.isBlock(value, node) {
			return "of another's node"
		}
	}
	return ""
}
