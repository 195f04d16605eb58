package lookup

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"ibrun/bootstrap/wire/rankwire"
	"ibrun/fabric"
	"ibrun/internal/job"
)

// own is this node's side: its block, its values, and questions that wait for them.
type own struct {
	ranks  []local
	bases  []fabric.Tuple // what the ranks' tuples share, one for each port that ranks use
	block  []byte         // encoded, nil when out of date
	parked []parked
}

// local is what the last program of a rank has said of itself.
type local struct {
	published bool
	later     bool // it will publish when it is wanted
	checking  bool // it has been asked whether it runs
	tuple     fabric.Tuple
	values    map[string][]byte
}

type parked struct {
	requester
	partialAt time.Duration // when a partial block will do; 0: the rank has not published
	unproven  bool          // the rank has not shown since that it runs
}

// partialAfter is how long a question about a rank that has published waits for the other ranks of
// its node, so that one block serves for all.
const partialAfter = 10 * time.Millisecond

func (l *Lookups) local(rank job.Slot) *local {
	i, o := l.below.Own.Index(rank), &l.own
	if i >= len(o.ranks) {
		o.ranks = append(o.ranks, make([]local, int(l.below.Own.Count())-len(o.ranks))...)
	}
	return &o.ranks[i]
}

// has reports whether a program of a rank has published its address that is new enough.
func (l *Lookups) has(rank job.Slot, least uint16) bool {
	p := l.below.Own.Of(rank)
	return l.local(rank).published && !p.Ended() && p.Epoch() >= least
}

// Joined forgets what an earlier program of a rank has said: the next one has joined the job.
func (l *Lookups) Joined(rank job.Slot) {
	*l.local(rank), l.own.block = local{}, nil
}

// Publish takes the address of a rank's program. Once is enough: again, it says that the rank runs.
func (l *Lookups) Publish(now time.Duration, rank job.Slot, tuple fabric.Tuple) []Effect {
	l.now = now
	base := tuple
	base.Num = 0
	o, r := &l.own, l.local(rank)
	switch {
	case r.published:
		l.proven(rank, r)
		return l.done()
	case len(o.bases) > 0 && !alike(base, o.bases[0]):
		// One block holds those of a node. Who asks for this rank would wait for ever.
		text := fmt.Sprintf("its address (%v) is of another network than those of the other ranks there (%v): "+
			"choose ports or interfaces that are alike with --hca or --iface, or use --fabric udp", tuple, o.bases[0])
		l.do(Effect{Do: Abort, To: Rank(rank), Msg: rankwire.Abort{Code: 1, Text: text}})
		return l.done()
	}
	if !slices.Contains(o.bases, base) {
		if len(o.bases) == fabric.MaxBases {
			return nil
		}
		o.bases = append(o.bases, base)
	}
	r.published, r.later, r.tuple, o.block = true, false, tuple, nil
	l.unpark()
	return l.done()
}

// alike reports whether tuples can be in one block.
func alike(a, b fabric.Tuple) bool {
	return a.Kind == b.Kind && a.Path == b.Path && a.Rails == b.Rails
}

// Later records that a rank publishes when it is wanted.
func (l *Lookups) Later(now time.Duration, rank job.Slot) []Effect {
	l.now = now
	r := l.local(rank)
	r.later = !r.published
	l.unpark()
	return l.done()
}

// Put takes a value of a rank's program, once for each key.
func (l *Lookups) Put(now time.Duration, rank job.Slot, m rankwire.Put) []Effect {
	l.now = now
	r := l.local(rank)
	if old, again := r.values[m.Key]; again {
		l.send(Rank(rank), rankwire.PutDone{Again: !bytes.Equal(old, m.Value)})
		return l.done()
	}
	if r.values == nil {
		r.values = map[string][]byte{}
	}
	r.values[m.Key] = m.Value
	l.send(Rank(rank), rankwire.PutDone{})
	l.unpark()
	return l.done()
}

// RankEnded looks again at what waits for this node's ranks: a program has left the job, or a rank
// has exited.
func (l *Lookups) RankEnded(now time.Duration) []Effect {
	l.now, l.own.block = now, nil
	l.unpark()
	return l.done()
}

// Dropped answers what waits for this node's ranks: they are not started.
func (l *Lookups) Dropped() []Effect {
	for _, p := range l.own.parked {
		l.answer(p.requester, rankwire.Answer{What: rankwire.Failed})
	}
	l.own.parked = nil
	return l.done()
}

// complete reports whether the node's block will not change soon by itself, but for ranks that end.
// Where one rank runs its next program, the others will.
func (l *Lookups) complete() bool {
	newest := l.below.Own.Newest()
	for rank, p := range l.below.Own.All() {
		r := l.local(rank)
		if !(r.published && !p.Ended() && p.Number() >= newest) && !p.Left(newest) && !r.later {
			return false
		}
	}
	return true
}

// ownBlock is this node's block as it is now.
func (l *Lookups) ownBlock() []byte {
	o, first := &l.own, l.below.Own.First()
	if o.block != nil {
		return o.block
	}
	b := fabric.Block{
		Node: uint32(l.below.Layout.NodeOf(first)), First: uint32(first),
		Ranks: make([]fabric.Entry, l.below.Own.Count()),
	}
	b.Base.Kind = fabric.NONE
	if len(o.bases) > 0 {
		b.Base, b.More = o.bases[0], o.bases[1:]
	}
	for rank, p := range l.below.Own.All() {
		if r := l.local(rank); r.published && !p.Ended() {
			base := r.tuple
			base.Num = 0
			b.Ranks[l.below.Own.Index(rank)] = fabric.Entry{
				Epoch: p.Epoch(), Num: r.tuple.Num, Base: uint8(slices.Index(o.bases, base)),
			}
		}
	}
	o.block = b.Append(nil)
	return o.block
}
