// Package queries decides for one agent how a question to running ranks goes down the tree, and how
// the answers are merged on their way up: one message down and one up on each edge, of a bounded
// size. It does not look at ranks: the driver does, and it keeps nothing when no question is open.
//
//	Ask --to the children that have ranks asked for, and to the own node--> open
//	open --all have answered, are gone, or the time is up--> answered, once
package queries

import (
	"slices"
	"time"

	"ibrun/bootstrap/core/subtree"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// Do is what an effect asks for.
type Do uint8

const (
	Ask     Do = iota // put Question on the link To
	Inspect           // let the driver answer for this node's ranks
	Answer            // put Standings on the link to the parent; at the root, give them to who asked
	Wake              // call Due at the time At
)

// Effect is something that the core must do about a query.
type Effect struct {
	Do        Do
	To        subtree.Link
	ID        uint32
	Question  rankwire.Question
	Standings rankwire.Standings
	At        time.Duration
}

// Queries are those that an agent has open.
type Queries struct {
	below  *subtree.Subtree
	newest uint32
	open   []*query // a few
	out    []Effect
}

// query is one that is not answered yet.
type query struct {
	id       uint32
	question rankwire.Question
	due      time.Duration
	own      bool           // this node has not answered
	children []subtree.Link // that have not
	sum      sum
}

// New makes the queries of an agent with a subtree.
func New(below *subtree.Subtree) Queries { return Queries{below: below} }

func (q *Queries) do(e Effect) { q.out = append(q.out, e) }

// done returns what was done since the last event.
func (q *Queries) done() []Effect {
	out := q.out
	q.out = q.out[:0]
	return out
}

// Next is a number that no query has had; the root's.
func (q *Queries) Next() uint32 { return q.newest + 1 }

// Ask opens a query. Numbers rise.
func (q *Queries) Ask(now time.Duration, id uint32, question rankwire.Question) []Effect {
	q.newest = max(q.newest, id)
	patience := time.Duration(question.PatienceMs) * time.Millisecond
	o := &query{id: id, question: question, due: now + patience, sum: newSum(question)}
	q.open = append(q.open, o)
	passed := question
	passed.PatienceMs -= passed.PatienceMs / 8
	for l := range subtree.Link(q.below.Children()) {
		asked := false
		for _, p := range q.below.Parts(l) {
			asked = asked || question.AsksAny(p.Nodes.Base(), p.Nodes.Ranks())
		}
		switch {
		case !asked:
		case q.below.Ended(l):
			q.ended(o, l)
		default:
			o.children = append(o.children, l)
			q.do(Effect{Do: Ask, To: l, ID: id, Question: passed})
		}
	}
	if own := &q.below.Own; own.Count() > 0 && question.AsksAny(own.First(), own.Count()) {
		o.own = true
		q.do(Effect{Do: Inspect, ID: id, Question: question})
	}
	q.do(Effect{Do: Wake, At: o.due})
	q.finish(o)
	return q.done()
}

// ended answers for a child that has ended: its ranks are over, or nobody knows.
func (q *Queries) ended(o *query, l subtree.Link) {
	if !q.below.Exited(l) {
		for _, p := range q.below.Parts(l) {
			o.sum.silent += uint32(p.Nodes.Len())
		}
		return
	}
	for _, p := range q.below.Parts(l) {
		over := span{p.Nodes.Base(), p.Nodes.Base() + job.Slot(p.Nodes.Ranks())}
		for _, s := range within(o.question.Ranks, over) {
			o.sum.group(rankwire.RankGroup{State: rankwire.Over, Count: uint32(s.end - s.first)}, []span{s})
		}
	}
}

// within is what of a span is asked for.
func within(asked rankwire.SlotSpans, all span) (out []span) {
	if asked.Len() == 0 {
		return []span{all}
	}
	for r := range asked.All() {
		if s := (span{max(r.First, all.first), min(r.End(), all.end)}); s.first < s.end {
			out = append(out, s)
		}
	}
	return out
}

func (q *Queries) find(id uint32) *query {
	for _, o := range q.open {
		if o.id == id {
			return o
		}
	}
	return nil
}

// Inspected takes the answer of this node.
func (q *Queries) Inspected(id uint32, s rankwire.Standings) []Effect {
	if o := q.find(id); o != nil && o.own {
		o.own = false
		o.sum.add(s)
		q.finish(o)
	}
	return q.done()
}

// Answered takes the answer of a child. One that comes too late is dropped.
func (q *Queries) Answered(l subtree.Link, id uint32, s rankwire.Standings) []Effect {
	if o := q.find(id); o != nil {
		if i := slices.Index(o.children, l); i >= 0 {
			o.children = slices.Delete(o.children, i, i+1)
			o.sum.add(s)
			q.finish(o)
		}
	}
	return q.done()
}

// Lie says what of a child's answer cannot be; empty: nothing. Has reports whether ranks are the
// child's.
func (q *Queries) Lie(id uint32, s rankwire.Standings, has func(first job.Slot, count uint32) bool) string {
	if id > q.newest {
		return "to what it was not asked"
	}
	for g := range s.Groups.All() {
		for r := range g.Ranks.All() {
			if !hasAll(r, has) {
				return "of another's ranks"
			}
		}
	}
	for r := range s.Rows.All() {
		if !has(r.Rank, 1) {
			return "of another's ranks"
		}
	}
	return ""
}

// hasAll reports whether a child has both ends of a span. Between them may be ranks of others, of
// which nothing is believed but their number.
func hasAll(s rankwire.SlotSpan, has func(first job.Slot, count uint32) bool) bool {
	return has(s.First, 1) && has(s.End()-1, 1)
}

// ChildEnded stops waiting for a child.
func (q *Queries) ChildEnded(l subtree.Link) []Effect {
	for _, o := range slices.Clone(q.open) {
		if i := slices.Index(o.children, l); i >= 0 {
			o.children = slices.Delete(o.children, i, i+1)
			q.ended(o, l)
			q.finish(o)
		}
	}
	return q.done()
}

// Due answers what has waited long enough.
func (q *Queries) Due(now time.Duration) []Effect {
	for _, o := range slices.Clone(q.open) {
		if now < o.due {
			q.do(Effect{Do: Wake, At: o.due})
			continue
		}
		for _, l := range o.children {
			for _, p := range q.below.Parts(l) {
				o.sum.silent += uint32(p.Nodes.Len())
			}
		}
		if o.own {
			o.sum.silent++
		}
		o.own, o.children = false, nil
		q.finish(o)
	}
	return q.done()
}

// finish answers a query for which nobody is waited for.
func (q *Queries) finish(o *query) {
	if o.own || len(o.children) > 0 {
		return
	}
	q.open = slices.DeleteFunc(q.open, func(other *query) bool { return other == o })
	q.do(Effect{Do: Answer, To: subtree.Up, ID: o.id, Standings: o.sum.standings()})
}
