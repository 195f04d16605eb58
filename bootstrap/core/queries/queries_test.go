package queries

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/core/subtree"
	"ibrun/bootstrap/core/subtree/subtreetest"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// The agent of subtreetest has ranks 4 and 5, child 0 ranks 6 and 7, child 1 ranks 8 and 9.
func agent() (*subtree.Subtree, *Queries) {
	s := subtreetest.Agent(false)
	q := New(s)
	return s, &q
}

var look = rankwire.Question{What: rankwire.LookAtRanks, Rows: 4, PatienceMs: 8000}

func spans(of ...job.Slot) rankwire.SlotSpans {
	var list []rankwire.SlotSpan
	for i := 0; i < len(of); i += 2 {
		list = append(list, rankwire.SlotSpan{First: of[i], Count: uint32(of[i+1] - of[i])})
	}
	return rankwire.NewSlotSpans(list...)
}

// does are what is asked for, without what comes with it.
func does(effects []Effect) (all []string) {
	for _, e := range effects {
		switch e.Do {
		case Ask:
			all = append(all, fmt.Sprintf("ask %d", e.To))
		case Inspect:
			all = append(all, "inspect")
		case Answer:
			s := e.Standings
			all = append(all, fmt.Sprintf("answer %d: %d nodes, %d silent", e.ID, s.Nodes, s.Silent))
		case Wake:
			all = append(all, fmt.Sprintf("wake %v", e.At))
		}
	}
	return all
}

func one(ranks ...job.Slot) rankwire.Standings {
	rows := make([]rankwire.RankRow, len(ranks))
	for i, r := range ranks {
		rows[i] = rankwire.RankRow{Rank: r, State: rankwire.Runs, CPUMs: 2}
	}
	return Sum(look, rows, nil)
}

// A question goes to each child and the own node once, and one answer goes up.
func TestDownAndUp(t *testing.T) {
	_, q := agent()
	effects := q.Ask(time.Second, 1, look)
	require.Equal(t, []string{"ask 0", "ask 1", "inspect", "wake 9s"}, does(effects))
	require.Equal(t, uint32(7000), effects[0].Question.PatienceMs, "in time for the parent's")
	require.Equal(t, uint32(2), q.Next())
	require.Empty(t, q.Answered(1, 1, one(8, 9)))
	require.Empty(t, q.Answered(1, 1, one(8, 9)), "a second answer")
	require.Empty(t, q.Inspected(1, one(4, 5)))
	effects = q.Answered(0, 1, one(6, 7))
	require.Equal(t, []string{"answer 1: 3 nodes, 0 silent"}, does(effects))
	groups := slices.Collect(effects[0].Standings.Groups.All())
	require.Len(t, groups, 1)
	require.Equal(t, rankwire.RankGroup{State: rankwire.Runs, Count: 6, CPUMs: 12, Ranks: spans(4, 10)}, groups[0])
	require.Equal(t, 4, effects[0].Standings.Rows.Len())
	require.Equal(t, uint32(2), effects[0].Standings.More)
	require.Empty(t, q.Inspected(1, one(4, 5)), "late")
	require.Empty(t, q.Due(time.Hour))
}

// Only those who have ranks that are meant are asked.
func TestOnTheWayOnly(t *testing.T) {
	_, q := agent()
	some := look
	some.Ranks = spans(8, 9)
	require.Equal(t, []string{"ask 1", "wake 8s"}, does(q.Ask(0, 1, some)))
	some.Ranks = spans(0, 3, 5, 6)
	require.Equal(t, []string{"inspect", "wake 8s"}, does(q.Ask(0, 2, some)))
	some.Ranks = spans(0, 3)
	require.Equal(t, []string{"wake 8s", "answer 3: 0 nodes, 0 silent"}, does(q.Ask(0, 3, some)))
}

// The time of a question is bounded, whatever its nodes do.
func TestPatience(t *testing.T) {
	_, q := agent()
	q.Ask(0, 1, look)
	q.Inspected(1, one(4, 5))
	require.Equal(t, []string{"wake 8s"}, does(q.Due(7*time.Second)))
	effects := q.Due(8 * time.Second)
	require.Len(t, effects, 1)
	require.Equal(t, uint32(1), effects[0].Standings.Nodes)
	require.Positive(t, effects[0].Standings.Silent)
}

// An answer is bounded, and counts what it leaves out.
func TestBounds(t *testing.T) {
	s := newSum(rankwire.Question{Rows: 1 << 20})
	var rows []rankwire.RankRow
	var texts []string
	for i := range job.Slot(3000) {
		rows = append(rows, rankwire.RankRow{Rank: 2 * i, State: rankwire.Runs})
		texts = append(texts, strings.Repeat("x", int(i)%200)+strings.Repeat("y", 1+rankwire.MaxStack-int(i)%200))
	}
	s.add(Sum(s.question, rows, texts))
	a := s.standings()
	require.Equal(t, rankwire.MaxGroups, a.Groups.Len())
	require.Equal(t, rankwire.MaxRows, a.Rows.Len())
	require.Equal(t, uint32(3000-rankwire.MaxRows), a.More)
	require.Equal(t, uint32(3000-15*rankwire.MaxGroups), a.Cut)
	s = newSum(look)
	s.add(Sum(look, rows, nil))
	g := slices.Collect(s.standings().Groups.All())[0]
	require.Equal(t, uint32(3000), g.Count)
	require.Equal(t, rankwire.MaxSpans, g.Ranks.Len())
}

// Rows that are kept are those of ranks behind, then of the least busy ones; those that are over
// come last.
func TestRowsKept(t *testing.T) {
	rows := []rankwire.RankRow{
		{Rank: 0, State: rankwire.Waits, Op: 5, Busy: 10}, {Rank: 1, State: rankwire.Over},
		{Rank: 2, State: rankwire.Joined, Op: 4, Busy: 900}, {Rank: 3, State: rankwire.Waits, Op: 5},
	}
	var got []job.Slot
	a := Sum(rankwire.Question{Rows: 9}, rows, nil)
	for r := range a.Rows.All() {
		got = append(got, r.Rank)
	}
	require.Equal(t, []job.Slot{2, 3, 0, 1}, got)
}

func TestLies(t *testing.T) {
	_, q := agent()
	q.Ask(0, 3, look)
	has := func(first job.Slot, _ uint32) bool { return first == 8 || first == 9 }
	require.Empty(t, q.Lie(3, one(8, 9), has))
	require.NotEmpty(t, q.Lie(4, one(8), has))
	require.NotEmpty(t, q.Lie(3, one(7), has))
	group := rankwire.Standings{Groups: rankwire.NewRankGroups(rankwire.RankGroup{Count: 3, Ranks: spans(8, 11)})}
	require.NotEmpty(t, q.Lie(3, group, has))
}
