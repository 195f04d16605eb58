package lookup

import (
	"time"

	"ibrun/bootstrap/wire/frame"
	"ibrun/internal/job"
)

// fetch is how a node in a job that chooses gets all addresses, when its ranks have asked for
// enough. Nobody waits for ranks that have not published: what is not in the table is asked for.
//
//	counting --enough questions have left this node--> fetching --the blocks are here--> counting
type fetch struct {
	learns bool   // nodes may fetch
	asked  int    // questions of this node's ranks that were passed on since the last fetch
	round  uint32 // of the fetch that is under way, or of the last one
	open   bool
}

// Open takes what the job says about addresses.
func (l *Lookups) Open(t job.Transport) {
	l.Eager, l.waits = t.Eager, t.Eager && !t.Learn
	l.fetch.learns = t.Learn
}

// maxRounds is how often the blocks of all nodes are fetched in one job, at most: ranks that had
// not published may be worth another fetch.
const maxRounds = 4

// FetchLie is what of a neighbour's message about a fetch cannot be; empty: nothing.
func (l *Lookups) FetchLie(round uint32) string {
	if !l.fetch.learns || round > maxRounds {
		return "that nobody may send"
	}
	return ""
}

// countAsked counts a question that was passed on, and fetches all blocks when these are enough.
func (l *Lookups) countAsked(a requester) {
	f := &l.fetch
	if !f.learns || l.Eager || f.open || l.resized || !a.Here || a.ask.Key != "" || a.ask.Fresh {
		return
	}
	f.asked++
	layout := l.below.Layout
	if f.round < maxRounds && job.Enough(f.asked, job.TableBytes(layout.Nodes(), layout.Ranks())) {
		f.round++
		f.open, f.asked = true, 0
		l.do(Effect{Do: Fetch, Round: f.round})
	}
}

// waitsForFetch parks a question of this node while all blocks are on their way.
func (l *Lookups) waitsForFetch(a requester) bool {
	return l.fetch.open && a.Here && a.ask.Key == "" && !a.ask.Fresh && l.park(a)
}

// Known is this node's block as far as it is known, for a fetch; nil: no rank has published.
func (l *Lookups) Known() []byte {
	if l.resized || l.below.Own.Count() == 0 || l.below.Own.Left() {
		return nil
	}
	for rank, p := range l.below.Own.All() {
		if l.has(rank, p.Epoch()) {
			return l.ownBlock()
		}
	}
	return nil
}

// Fetched takes the blocks of all nodes, and looks up what waited for them. After a change of size
// they may be of nodes that have left.
func (l *Lookups) Fetched(now time.Duration, round uint32, blocks frame.Values) []Effect {
	l.now = now
	l.fetch.open, l.fetch.round = false, max(l.fetch.round, round)
	l.table.giveUp = 0
	if !l.resized {
		l.cache.open(blocks, l.below.Layout.Nodes())
	}
	l.flush()
	return l.done()
}
