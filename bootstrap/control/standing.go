package control

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// Standing is the answer of a whole job.
type Standing struct {
	Nodes  uint32          `json:"nodes"`  // number of nodes whose agents have answered
	Silent uint32          `json:"silent"` // number of nodes whose agents are lost or have not answered in time
	Cut    uint32          `json:"cut,omitempty"`
	More   uint32          `json:"more,omitempty"`
	Groups []StandingGroup `json:"groups,omitempty"`
	Rows   []StandingRow   `json:"rows,omitempty"`
}

// StandingGroup is a set of ranks that are in the same state.
type StandingGroup struct {
	State  string  `json:"state"`
	Op     uint32  `json:"op,omitempty"`   // collectives that each has joined
	Call   string  `json:"call,omitempty"` // that it waits in
	Text   string  `json:"text,omitempty"` // its stack
	Count  uint32  `json:"count"`
	Ranks  string  `json:"ranks"`
	Age    float64 `json:"age,omitempty"` // seconds
	CPU    float64 `json:"cpu,omitempty"` // seconds
	Memory uint64  `json:"memory,omitempty"`
}

// StandingRow is the state of one rank.
type StandingRow struct {
	Rank   job.Rank `json:"rank"`
	Host   string   `json:"host"`
	PID    uint32   `json:"pid,omitempty"`
	State  string   `json:"state"`
	Op     uint32   `json:"op,omitempty"`
	Call   string   `json:"call,omitempty"`
	Age    float64  `json:"age,omitempty"`
	Kernel string   `json:"kernel,omitempty"`
	CPU    float64  `json:"cpu"`
	Busy   float64  `json:"busy"` // of one CPU, in percent
	Memory uint64   `json:"memory"`
	CPUs   string   `json:"cpus,omitempty"`
	HCA    string   `json:"hca,omitempty"`
	Waits  string   `json:"waits,omitempty"`
}

// These constants are names of states of a rank, in JSON and in text. The function called name returns the names of all
// states.
const (
	StandingWaits = "waits"
	StandingOver  = "exited"
	StandingLeft  = "finalized"
)

// name returns the name of a state of a rank.
func name(s rankwire.Standing) string {
	return [...]string{"not started", "runs", "joined", StandingWaits, StandingLeft, StandingOver, "signaled"}[s]
}

// StandingOf converts the answer of the agents to a Standing. The layout l maps the slots in the answer to ranks.
func StandingOf(l job.Layout, a rankwire.Standings) Standing {
	s := Standing{Nodes: a.Nodes, Silent: a.Silent, Cut: a.Cut, More: a.More}
	for g := range a.Groups.All() {
		out := StandingGroup{State: name(g.State), Op: g.Op, Text: g.Text, Count: g.Count, Age: seconds(uint64(g.AgeMs)),
			CPU: seconds(g.CPUMs), Memory: g.Memory, Ranks: ranksOf(l, g)}
		if g.State == rankwire.Waits {
			out.Call = g.Call.String()
		}
		s.Groups = append(s.Groups, out)
	}
	for r := range a.Rows.All() {
		out := StandingRow{Rank: l.Rank(r.Rank), Host: r.Host, PID: r.PID, State: name(r.State), Op: r.Op,
			Age: seconds(uint64(r.AgeMs)), CPU: seconds(r.CPUMs), Busy: float64(r.Busy) / 10, Memory: r.Memory,
			CPUs: r.CPUs, HCA: r.HCA, Waits: r.Waits}
		if r.State == rankwire.Waits {
			out.Call = r.Call.String()
		}
		if r.Kernel != 0 {
			out.Kernel = string(rune(r.Kernel))
		}
		s.Rows = append(s.Rows, out)
	}
	return s
}

func seconds(ms uint64) float64 { return float64(ms) / 1000 }

// ranksOf is the ranks of a group: "0-16,18", and how many are not named.
func ranksOf(l job.Layout, g rankwire.RankGroup) string {
	var ranks []job.Rank
	var words []string
	named := uint32(0)
	word := func(first, last job.Rank) {
		if last == first {
			words = append(words, fmt.Sprint(first))
		} else {
			words = append(words, fmt.Sprintf("%d-%d", first, last))
		}
	}
	for s := range g.Ranks.All() {
		named += s.Count
		if l.Plain() { // slots and ranks have the same numbers, so that millions of ranks need no loop
			word(job.Rank(s.First), job.Rank(s.End()-1))
			continue
		}
		for slot := s.First; slot < s.End(); slot++ {
			ranks = append(ranks, l.Rank(slot))
		}
	}
	slices.Sort(ranks)
	for i := 0; i < len(ranks); {
		first := ranks[i]
		for i++; i < len(ranks) && ranks[i] == ranks[i-1]+1; {
			i++
		}
		word(first, ranks[i-1])
	}
	if len(words) > rankwire.MaxSpans {
		words = append(words[:rankwire.MaxSpans], "...")
	} else if named < g.Count {
		words = append(words, fmt.Sprintf("and %d more", g.Count-named))
	}
	return strings.Join(words, ",")
}

// ParseRanks parses a list of ranks such as "0-3,7" and returns their slots. If text is empty, it returns no spans,
// which stands for all ranks.
func ParseRanks(l job.Layout, text string) (none rankwire.SlotSpans, err error) {
	if text == "" {
		return none, nil
	}
	var slots []job.Slot
	for _, word := range strings.Split(text, ",") {
		low, high, isRange := strings.Cut(word, "-")
		if !isRange {
			high = low
		}
		first, err := strconv.ParseUint(low, 10, 32)
		last, err2 := strconv.ParseUint(high, 10, 32)
		switch {
		case err != nil || err2 != nil || last < first:
			return none, fmt.Errorf("%q is no list of ranks: write 0-3,7", text)
		case last >= uint64(l.Ranks()):
			return none, fmt.Errorf("there is no rank %d: the job has %d", last, l.Ranks())
		case uint64(len(slots))+last-first >= job.MaxRanks:
			return none, fmt.Errorf("%.40q names ranks more than once", text)
		}
		for rank := first; rank <= last; rank++ {
			slots = append(slots, l.Slot(job.Rank(rank)))
		}
	}
	slices.Sort(slots)
	var spans []rankwire.SlotSpan
	for _, slot := range slices.Compact(slots) {
		if last := len(spans) - 1; last >= 0 && spans[last].End() == slot {
			spans[last].Count++
			continue
		}
		spans = append(spans, rankwire.SlotSpan{First: slot, Count: 1})
	}
	return rankwire.NewSlotSpans(spans...), nil
}

// Collectives tells of each collective in which ranks wait how many there are, since when, and who
// is missing, on which node: one line each, the oldest first.
func (s *Standing) Collectives() (lines []string) {
	var waiting []*StandingGroup
	for i := range s.Groups {
		if s.Groups[i].State == StandingWaits {
			waiting = joined(waiting, s.Groups[i])
		}
	}
	slices.SortFunc(waiting, func(a, b *StandingGroup) int { return cmp.Compare(a.Op, b.Op) })
	for _, w := range waiting {
		lines = append(lines, fmt.Sprintf("%s %d: %s waited for %.1f s; missing: %s", w.Call, w.Op,
			have(w.Count, "rank"), w.Age, s.missing(w.Op)))
	}
	return lines
}

// joined adds a group of ranks that wait in a collective to those that wait in the same one.
func joined(all []*StandingGroup, g StandingGroup) []*StandingGroup {
	for _, o := range all {
		if o.Op == g.Op {
			o.Count, o.Age = o.Count+g.Count, max(o.Age, g.Age)
			return all
		}
	}
	return append(all, &g)
}

// mostNamed bounds the ranks whose nodes are named in one line.
const mostNamed = 8

// missing names the ranks that have not joined a collective and can.
func (s *Standing) missing(op uint32) string {
	var groups []string
	count, named := uint32(0), uint32(0)
	for _, g := range s.Groups {
		if late(g.State, g.Op, op) {
			groups = append(groups, g.Ranks)
			count += g.Count
		}
	}
	if count == 0 {
		if s.Silent > 0 {
			return "ranks of nodes that do not answer"
		}
		return "nobody; it is about to end"
	}
	var rows []string
	for _, r := range s.sorted() {
		if late(r.State, r.Op, op) && named < mostNamed {
			named++
			rows = append(rows, fmt.Sprintf("rank %d on %s (%s)", r.Rank, r.Host, r.does()))
		}
	}
	if count > named && len(rows) > 0 {
		return fmt.Sprintf("%d ranks (%s), of which %s", count, strings.Join(groups, ","), strings.Join(rows, ", "))
	}
	if len(rows) == 0 {
		return fmt.Sprintf("%d ranks (%s)", count, strings.Join(groups, ","))
	}
	return strings.Join(rows, ", ")
}

// late reports whether a rank in a state is one that a collective waits for.
func late(state string, joined, op uint32) bool {
	return joined < op && state != StandingOver && state != StandingLeft
}

func (s *Standing) sorted() []StandingRow {
	return slices.SortedFunc(slices.Values(s.Rows), func(a, b StandingRow) int { return cmp.Compare(a.Rank, b.Rank) })
}

// does is what a rank does, in a few words.
func (r StandingRow) does() string {
	if r.PID == 0 {
		return r.State
	}
	if r.Waits == "" {
		return fmt.Sprintf("process %d, computes", r.PID)
	}
	return fmt.Sprintf("process %d, in %s", r.PID, r.Waits)
}
