package lookup

import (
	"time"

	"ibrun/bootstrap/core/subtree"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// table is the state of the address table, which is exchanged once if Lookups.Eager is set. A block contains the
// addresses of the ranks of one node. An agent sends the blocks of its subtree to its parent when they are complete.
// Then the root sends the blocks of all nodes, which are the table, down the tree.
type table struct {
	blocks   frame.Values  // blocks of the children's subtrees, until the table has come
	children []tablePart   // state of each child's blocks, indexed by link
	reported int           // number of children whose state is not partMissing
	sent     bool          // the blocks of this subtree were complete and were passed on
	here     bool          // the table has come from the parent, or is complete at the root
	early    []requester   // questions that wait for the table or for a fetch
	giveUp   time.Duration // time until which questions wait; 0 if none has waited yet
}

// tablePart is the state of a child's blocks in the table.
type tablePart uint8

const (
	partMissing tablePart = iota // the child's blocks have not come yet
	partHere                     // the child's blocks have come, or may be lost with its old parent; it gets the table
	partNone                     // the child ended before its blocks came, or joined a running job; it gets no table
)

// tablePatience is how long questions wait for the table or for a fetch, from the first question on. Later, questions
// are passed on in the tree. Without a limit, a node whose ranks publish no addresses would block them for ever.
const tablePatience = 2 * time.Second

// waitsForTable delays the question a until the table comes, and reports whether it has done so. It does not delay
// questions about keys of the KVS or questions that request a fresh answer. If Lookups.waits is false, it delays none.
func (l *Lookups) waitsForTable(a requester) bool {
	t := &l.table
	if !l.waits || t.here || a.ask.Fresh || a.ask.Key != "" {
		return false
	}
	return l.park(a)
}

// park adds a to the questions that wait for the table or for a fetch. It returns false if tablePatience has passed.
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

// tableDue looks up the parked questions if table.giveUp has passed. Otherwise it requests a wake-up at that time.
func (l *Lookups) tableDue() {
	t := &l.table
	if t.giveUp > 0 && l.now >= t.giveUp && len(t.early) > 0 {
		l.flush()
	}
	if len(t.early) > 0 {
		l.wake(t.giveUp)
	}
}

// Launched says that the launch of this subtree is complete, so it gets no further child before the table is sent. If
// the blocks of the subtree are complete, they are sent to the parent.
func (l *Lookups) Launched(now time.Duration) []Effect {
	l.now = now
	l.publishTable()
	return l.done()
}

// TableBelow handles the blocks of a child's subtree, which the child has sent.
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

// becomePart sets the state of a child's blocks. The old state must be partMissing, and the new one must not.
func (l *Lookups) becomePart(child subtree.Link, to tablePart) {
	for int(child) >= len(l.table.children) {
		l.table.children = append(l.table.children, partMissing)
	}
	l.table.children[child] = to
	l.table.reported++
}

func (l *Lookups) part(child subtree.Link) tablePart {
	if int(child) < len(l.table.children) {
		return l.table.children[child]
	}
	return partMissing
}

// publishTable sends the blocks of this subtree to the parent if they are complete and have not been sent. At the root,
// it sends the table to the children instead.
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
	if l.waits || t.blocks.Len() > 0 { // an empty message matters only if questions wait for the table
		l.sendTable(subtree.Up, carried(t.blocks))
	}
}

// carried returns blocks, or no blocks if they are too large for a message. Addresses are looked up individually then.
func carried(blocks frame.Values) frame.Values {
	if blocks.Size() > rankwire.MaxGather {
		return frame.Values{}
	}
	return blocks
}

// sendTable sends blocks over a link and counts their bytes.
func (l *Lookups) sendTable(to subtree.Link, blocks frame.Values) {
	l.CountBytes(blocks)
	l.do(Effect{Do: Table, To: Neighbour(to), Blocks: blocks})
}

// CountBytes adds the size of blocks that are sent over a link to AddressBytes.
func (l *Lookups) CountBytes(blocks frame.Values) {
	for v := range blocks.All() {
		l.AddressBytes += uint64(len(v))
	}
}

// Table handles the table, which the parent has sent. It sends the table to all children except those in partNone.
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

// flush looks up the answers to the questions that were delayed by park.
func (l *Lookups) flush() {
	early := l.table.early
	l.table.early = nil
	for _, a := range early {
		l.lookUp(a)
	}
}

// TableAwaited reports whether the parent may send the table now, which it does at most once.
func (l *Lookups) TableAwaited() bool { return l.Eager && !l.table.here }

// TableLie returns the reason to reject the blocks that a child has sent for the table, or "" if they are valid. nodes
// is the number of nodes in the child's subtree, and has reports whether a node is one of them.
func (l *Lookups) TableLie(
	child subtree.Link, blocks frame.Values, nodes int, has func(job.NodeIndex) bool,
) string {
	if !l.Eager || l.part(child) != partMissing {
		return "that nobody wants"
	}
	return l.BlocksLie(blocks, nodes, has)
}

// BlocksLie returns the reason to reject the blocks that a child has sent for a fetch, with arguments as in TableLie.
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
