package tree

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

type reference struct {
	Table2 struct {
		Params   map[string]struct{ SEQ, REM float64 }
		N        int
		Makespan map[string]map[string]float64 `json:"makespan_s"`
	}
	Figure5 struct {
		SEQ, REM float64
		Rows     []map[string]float64
	}
	Greedy struct {
		SEQ, REM float64
		ByN      map[string]float64 `json:"makespan_s_by_n"`
	} `json:"greedy_optimum"`
}

func load(t *testing.T) reference {
	b, err := os.ReadFile("testdata/launch-model.json")
	require.NoError(t, err)
	var r reference
	require.NoError(t, json.Unmarshal(b, &r))
	return r
}

func cost(seq, rem float64) Cost {
	return Cost{SEQ: seconds(seq), REM: seconds(rem)}
}

func seconds(s float64) time.Duration { return time.Duration(s*1e6+0.5) * time.Microsecond }

func shapeNamed(name string, c Cost) Shape {
	switch name {
	case "greedy":
		return Shape{Kind: Greedy, Cost: c}
	case "flat":
		return Shape{Kind: Flat, Cost: c}
	case "chain":
		return Shape{Kind: Chain, Cost: c}
	}
	k, err := strconv.Atoi(name)
	if err != nil {
		panic(name)
	}
	return Shape{Kind: Kary, K: k, Cost: c}
}

// agree requires that s.Makespan(n) is want seconds, as the reference model computes.
func agree(t *testing.T, s Shape, n int, want float64) {
	t.Helper()
	at := fmt.Sprintf("%v n=%d", s, n)
	require.Equal(t, seconds(want), s.Makespan(n), at)
	if s.Kind == Greedy {
		require.Equal(t, seconds(want), s.Cost.Optimum(n), at)
	}
}

func TestTableII(t *testing.T) {
	r := load(t).Table2
	cells := 0
	for set, row := range r.Makespan {
		c := cost(r.Params[set].SEQ, r.Params[set].REM)
		for name, want := range row {
			agree(t, shapeNamed(name, c), r.N, want)
			cells++
		}
	}
	require.Equal(t, 33, cells)
}

func TestFigure5(t *testing.T) {
	r := load(t).Figure5
	require.NotEmpty(t, r.Rows)
	for _, row := range r.Rows {
		n := int(row["n"])
		for name, want := range row {
			if name != "n" {
				agree(t, shapeNamed(name, cost(r.SEQ, r.REM)), n, want)
			}
		}
	}
}

func TestGreedyOptimum(t *testing.T) {
	r := load(t).Greedy
	require.NotEmpty(t, r.ByN)
	for text, want := range r.ByN {
		n, err := strconv.Atoi(text)
		require.NoError(t, err)
		agree(t, Shape{Kind: Greedy, Cost: cost(r.SEQ, r.REM)}, n, want)
	}
}

var allShapes = []string{"flat", "chain", "kary:1", "kary:2", "kary:3", "kary:8", "kary:32", "binomial", "two-level",
	"greedy", "greedy:1ms,1ms", "greedy:13ms,485ms", "greedy:7ms,172ms,16", "greedy:1ms,300ms,3", "greedy:1us,1s,1"}

// Every agent is started exactly once, in every shape and number.
func TestSplitCovers(t *testing.T) {
	for _, text := range allShapes {
		s, err := Parse(text)
		require.NoError(t, err)
		type key struct{ level, n int }
		seen := map[key]bool{}
		var check func(level, n int)
		check = func(level, n int) {
			if seen[key{min(level, 2), n}] {
				return
			}
			seen[key{min(level, 2), n}] = true
			sum := 0
			for _, size := range s.Split(level, n) {
				require.Positive(t, size)
				sum += size
				check(level+1, size)
			}
			require.Equal(t, n-1, sum, "%s level %d n %d", text, level, n)
		}
		for n := 1; n <= 1200; n++ {
			check(0, n)
		}
	}
}

func TestTwoLevelFanOut(t *testing.T) {
	s := Shape{Kind: TwoLevel}
	require.Len(t, s.Split(0, 65), 8)
	require.Equal(t, []int{1, 1, 1, 1, 1, 1, 1}, s.Split(1, 8))
}

func TestNoShapeIsFasterThanGreedy(t *testing.T) {
	for n := 1; n <= 400; n++ {
		best := Shape{Kind: Greedy, Cost: DefaultCost}.Makespan(n)
		for _, text := range []string{"flat", "chain", "kary:2", "kary:8", "binomial", "two-level"} {
			s, err := Parse(text)
			require.NoError(t, err)
			require.GreaterOrEqual(t, s.Makespan(n), best, "%s n=%d", text, n)
		}
	}
}

func TestParseRoundTrip(t *testing.T) {
	for _, text := range allShapes {
		s, err := Parse(text)
		require.NoError(t, err)
		again, err := Parse(s.String())
		require.NoError(t, err)
		require.Equal(t, s, again)
	}
	for _, bad := range []string{"", "tree", "kary", "kary:0", "kary:x", "kary:-1", "greedy:1ms", "greedy:0s,1s",
		"greedy:1ms,2ms:3", "flat:a,b", "flat:1ms,2ms,", "flat:1ms,2ms,0", "flat:1ms,2ms,x", "flat:1ms,2ms,3,4"} {
		_, err := Parse(bad)
		require.Error(t, err, bad)
	}
}

func TestResolve(t *testing.T) {
	auto := Shape{Kind: Auto, Cost: DefaultCost}
	require.Equal(t, Flat, auto.Resolve(4).Kind)
	require.Equal(t, Greedy, auto.Resolve(1000).Kind)
}

// ssh as a program takes 77 of its 284 ms from the client's CPU, native ssh 2.2 of
// 43 (facts of a 2-core machine).
func TestSaturate(t *testing.T) {
	ms := func(x float64) time.Duration { return time.Duration(x * 1e6) }
	require.Equal(t, 8, Saturate(2, ms(284), ms(77)))
	require.Equal(t, 40, Saturate(2, ms(43), ms(2.2)))
	require.Equal(t, MostWindow, Saturate(64, ms(43), ms(2.2)))
	require.Equal(t, leastWindow, Saturate(1, ms(5), ms(5)))
}

// A share is what makes all end at the same time: a child that begins now takes as
// much as its parent keeps, one that is alone with many others little, and what is
// more than one can do in time is not given to it.
func TestShare(t *testing.T) {
	c := Cost{SEQ: 10 * time.Millisecond, REM: 100 * time.Millisecond}
	require.Zero(t, c.Share(0, 0, nil))
	require.Equal(t, 1, c.Share(1, 0, nil))
	for n := 2; n <= 3000; n += n/7 + 1 {
		half := c.Share(n, 0, nil)
		require.InDelta(t, float64(n)/2, float64(half), 1, "%d nodes", n)
		others := c.Share(n, 0, []time.Duration{0, 0})
		require.InDelta(t, float64(n)/4, float64(others), 1, "%d nodes", n)
		busy := c.Share(n, c.REM, nil)
		require.GreaterOrEqual(t, busy, half, "its parent can begin none now")
		require.Equal(t, n, c.Share(n, time.Hour, nil), "nor ever")
		late := c.Share(n, 0, []time.Duration{50 * time.Millisecond})
		require.LessOrEqual(t, late, half)
		require.GreaterOrEqual(t, late, c.Share(n, 0, []time.Duration{0}))
	}
}
