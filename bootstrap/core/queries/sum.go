package queries

import (
	"cmp"
	"sort"

	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// span is the slots [first, end).
type span struct{ first, end job.Slot }

// Sorting is sort.Slice's here: slices.SortFunc makes 20 KB of code for each type of element.

// sum is what has come of the answers to a question.
type sum struct {
	question                 rankwire.Question
	nodes, silent, cut, more uint32
	groups                   []group
	rows                     []rankwire.RankRow
}

// group is a RankGroup whose ranks are not packed yet.
type group struct {
	rankwire.RankGroup
	spans []span
}

func newSum(q rankwire.Question) sum { return sum{question: q} }

// add adds an answer of other ranks than those before.
func (s *sum) add(a rankwire.Standings) {
	s.nodes, s.silent = s.nodes+a.Nodes, s.silent+a.Silent
	s.cut, s.more = s.cut+a.Cut, s.more+a.More
	for g := range a.Groups.All() {
		var spans []span
		for r := range g.Ranks.All() {
			spans = append(spans, span{r.First, r.End()})
		}
		s.group(g, spans)
	}
	for r := range a.Rows.All() {
		s.rows = append(s.rows, r)
	}
	s.trim()
}

// group adds ranks to the group of the same state.
func (s *sum) group(g rankwire.RankGroup, spans []span) {
	for i := range s.groups {
		o := &s.groups[i]
		if o.State != g.State || o.Op != g.Op || o.Call != g.Call || o.Text != g.Text {
			continue
		}
		o.Count += g.Count
		o.AgeMs = max(o.AgeMs, g.AgeMs)
		o.CPUMs, o.Memory = job.Added(o.CPUMs, g.CPUMs), job.Added(o.Memory, g.Memory)
		o.spans = joined(o.spans, spans)
		return
	}
	g.Ranks = rankwire.SlotSpans{}
	s.groups = append(s.groups, group{g, joined(nil, spans)})
}

// joined is all slots of two lists, in order and with as few spans as there can be. Beyond the most
// that an answer has, the last are dropped: the count of the group has them.
func joined(a, b []span) []span {
	all := append(append(make([]span, 0, len(a)+len(b)), a...), b...)
	sort.Slice(all, func(i, j int) bool { return all[i].first < all[j].first })
	out := all[:0]
	for _, s := range all {
		if last := len(out) - 1; last >= 0 && s.first <= out[last].end {
			out[last].end = max(out[last].end, s.end)
			continue
		}
		out = append(out, s)
	}
	return out[:min(len(out), rankwire.MaxSpans)]
}

// trim keeps as much as an answer may have: of groups the largest, of rows those of ranks that are
// furthest behind.
func (s *sum) trim() {
	sort.SliceStable(s.groups, func(i, j int) bool {
		a, b := &s.groups[i], &s.groups[j]
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.begin(), b.begin())) < 0
	})
	for _, g := range s.groups[min(len(s.groups), rankwire.MaxGroups):] {
		s.cut += g.Count
	}
	s.groups = s.groups[:min(len(s.groups), rankwire.MaxGroups)]
	sort.Slice(s.rows, func(i, j int) bool { return before(&s.rows[i], &s.rows[j]) < 0 })
	if most := int(min(s.question.Rows, rankwire.MaxRows)); len(s.rows) > most {
		s.more += uint32(len(s.rows) - most)
		s.rows = s.rows[:most]
	}
}

func (g *group) begin() job.Slot {
	if len(g.spans) == 0 {
		return 0
	}
	return g.spans[0].first
}

// before orders rows, of which the first are kept: of ranks that are furthest behind, then of the
// least busy ones. Ranks that are over come last.
func before(a, b *rankwire.RankRow) int {
	over := func(r *rankwire.RankRow) int {
		if r.State == rankwire.Over || r.State == rankwire.Left {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(over(a), over(b)), cmp.Compare(a.Op, b.Op), cmp.Compare(a.State, b.State),
		cmp.Compare(a.Busy, b.Busy), cmp.Compare(a.Rank, b.Rank))
}

// standings packs the answer.
func (s *sum) standings() rankwire.Standings {
	s.trim()
	a := rankwire.Standings{Nodes: s.nodes, Silent: s.silent, Cut: s.cut, More: s.more}
	var groups []rankwire.RankGroup
	for _, g := range s.groups {
		var spans []rankwire.SlotSpan
		for _, p := range g.spans {
			spans = append(spans, rankwire.SlotSpan{First: p.first, Count: uint32(p.end - p.first)})
		}
		g.Ranks = rankwire.NewSlotSpans(spans...)
		groups = append(groups, g.RankGroup)
	}
	if len(groups) > 0 {
		a.Groups = rankwire.NewRankGroups(groups...)
	}
	if len(s.rows) > 0 {
		a.Rows = rankwire.NewRankRows(s.rows...)
	}
	return a
}

// Sum is the answer of one node, of its rows: a group of each state, and as many rows as wanted.
// Texts has the text of each row's group; nil: none.
func Sum(q rankwire.Question, rows []rankwire.RankRow, texts []string) rankwire.Standings {
	s := newSum(q)
	s.nodes = 1
	for i, r := range rows {
		g := rankwire.RankGroup{State: r.State, Op: r.Op, Call: r.Call, Count: 1, AgeMs: r.AgeMs, CPUMs: r.CPUMs,
			Memory: r.Memory}
		if texts != nil {
			g.Text = texts[i][:min(len(texts[i]), rankwire.MaxStack)]
		}
		s.group(g, []span{{r.Rank, r.Rank + 1}})
	}
	s.rows = rows
	return s.standings()
}
