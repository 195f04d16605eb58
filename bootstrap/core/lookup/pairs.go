package lookup

import (
	"maps"
	"slices"

	"ibrun/bootstrap/core/subtree"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// PairEffect is an action that Pairs asks the core to perform. If What is Found, the core connects A and B by a socket
// pair. Otherwise it sends A a Pair without a socket, whose What is the state of B.
type PairEffect struct {
	A, B job.Slot
	What rankwire.Answered
}

// Pairs decides which ranks of a node are connected by socket pairs. NewPairs makes it; the zero value is not usable.
type Pairs struct {
	own   *subtree.Ranks
	asked map[pair]bool // all requested pairs; true if the request was answered by a socket or a refusal
	early []pair        // pairs without an answer, because one of the ranks has not joined yet
	again []pair        // pairs that were requested again after their answer; Retry checks whether a rank has left
	out   []PairEffect  // effects of the current event
}

// pair represents two ranks of the node, the lower slot first.
type pair struct{ low, high job.Slot }

// NewPairs returns the Pairs of a node. own has the ranks of the node.
func NewPairs(own *subtree.Ranks) Pairs { return Pairs{own: own} }

func (p *Pairs) do(e PairEffect) { p.out = append(p.out, e) }

// done returns the effects of the current event.
func (p *Pairs) done() []PairEffect {
	out := p.out
	p.out = p.out[:0]
	return out
}

// Ask handles the request of rank a for a socket to rank b. If both ranks request it, they are connected once.
func (p *Pairs) Ask(a, b job.Slot) []PairEffect {
	if a == b || !p.own.Has(b) {
		p.do(PairEffect{A: a, B: b, What: rankwire.NoRank})
		return p.done()
	}
	key := pair{min(a, b), max(a, b)}
	if settled, again := p.asked[key]; again && !(settled && p.own.Of(b).Left(p.own.Of(a).Number())) {
		if settled && !slices.Contains(p.again, key) {
			p.again = append(p.again, key)
		}
		return nil // the pair was requested before
	}
	if p.asked == nil {
		p.asked = map[pair]bool{}
	}
	p.asked[key] = false
	p.try(key)
	return p.done()
}

// Forget drops all requests for pairs with the given rank, because a new program of the rank replaces the old one.
func (p *Pairs) Forget(rank job.Slot) {
	of := func(key pair) bool { return key.low == rank || key.high == rank }
	maps.DeleteFunc(p.asked, func(key pair, _ bool) bool { return of(key) })
	p.again = slices.DeleteFunc(p.again, of)
}

// Retry answers requests that could not be answered before. It is called when a rank of the node has joined or ended.
func (p *Pairs) Retry() []PairEffect {
	early := p.early
	p.early = nil
	for _, key := range early {
		p.try(key)
	}
	p.again = slices.DeleteFunc(p.again, func(key pair) bool {
		a, b := p.own.Of(key.low), p.own.Of(key.high)
		over := a.Left(b.Number()) || b.Left(a.Number())
		if over {
			p.try(key)
		}
		return over
	})
	return p.done()
}

// try connects the two ranks if both have joined and run programs of the same number. If one of them has left, it
// refuses the request. Otherwise it leaves the request to Retry.
func (p *Pairs) try(key pair) {
	a, b := p.own.Of(key.low), p.own.Of(key.high)
	switch {
	case a.Left(b.Number()):
		p.refuse(key.high, key.low)
	case b.Left(a.Number()):
		p.refuse(key.low, key.high)
	case a.Joined() && b.Joined() && a.Number() == b.Number():
		p.do(PairEffect{A: key.low, B: key.high})
	default:
		p.early = append(p.early, key)
		return
	}
	p.asked[key] = true
}

// refuse tells the rank alive that the rank dead has ended or failed.
func (p *Pairs) refuse(alive, dead job.Slot) {
	if !p.own.Of(alive).Joined() {
		return // the first frame to a rank must be Welcome; the rank can request the pair later
	}
	what := rankwire.Exited
	if p.own.Of(dead).Failed() {
		what = rankwire.Failed
	}
	p.do(PairEffect{A: alive, B: dead, What: what})
}
