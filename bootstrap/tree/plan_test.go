package tree

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/test/bench/figure"
)

// planCosts are the costs that are built in, with and without the window, and
// those of a fast and of a slow remote shell.
var planCosts = []Cost{
	{7 * time.Millisecond, 172 * time.Millisecond, 0},
	{7 * time.Millisecond, 172 * time.Millisecond, Window},
	{2200 * time.Microsecond, 45 * time.Millisecond, Window},
	{20 * time.Millisecond, 2 * time.Second, Window},
}

// plan is what ibrun does before the first session: choose a shape, lay out
// the root's children, foretell the launch.
func plan(c Cost, nodes int) (sizes []int, last time.Duration) {
	s := Shape{Kind: Auto, Cost: c}.Resolve(nodes + 1)
	return s.Split(0, nodes+1), s.Makespan(nodes + 1)
}

// whole is the parent of every agent, the root being agent 0: a tree that no
// ibrun ever makes, since each agent splits its own part.
func whole(s Shape, agents int) []int32 {
	parents := make([]int32, agents)
	splits := map[int][]int{}
	next := int32(1)
	var grow func(at int32, n int)
	grow = func(at int32, n int) {
		sizes, known := splits[n]
		if !known {
			sizes = s.Split(1, n)
			splits[n] = sizes
		}
		for _, size := range sizes {
			child := next
			next++
			parents[child] = at
			if size > 1 {
				grow(child, size)
			}
		}
	}
	grow(0, agents)
	return parents
}

// The planner's work: how many different subtrees there are, each of which is
// split once. They are few, and hardly more for more nodes, so that a plan for a
// million takes about what one for a thousand takes. `make bench-planner` has times.
func TestPlansAreFewSplits(t *testing.T) {
	for _, c := range planCosts {
		s := Shape{Kind: Greedy, Cost: c}
		for _, n := range []int{1_000, 100_000, 1_000_000} {
			seen := map[int]bool{}
			children := 0
			todo := []int{n + 1}
			for len(todo) > 0 {
				size := todo[len(todo)-1]
				todo = todo[:len(todo)-1]
				if seen[size] {
					continue
				}
				seen[size] = true
				sizes := s.Split(1, size)
				children += len(sizes)
				todo = append(todo, sizes...)
			}
			t.Logf("%v: %d nodes: %d different subtrees with %d children", s, n, len(seen), children)
			require.Less(t, len(seen), 300, "%v %d", s, n)
			require.Less(t, children, 16_000, "%v %d", s, n)
		}
	}
}

// All agents of a whole tree but the root have a parent that comes before them.
func TestWholeTree(t *testing.T) {
	parents := whole(Shape{Kind: Greedy, Cost: planCosts[1]}, 5000)
	for i, p := range parents[1:] {
		require.Less(t, p, int32(i+1))
	}
	require.Len(t, parents, 5000)
}

func BenchmarkPlan(b *testing.B) {
	for _, n := range []int{100_000, 1_000_000} {
		for _, c := range planCosts {
			b.Run(fmt.Sprintf("%d/%v", n, c), func(b *testing.B) {
				for b.Loop() {
					plan(c, n)
				}
			})
		}
	}
}

func BenchmarkWholeTree(b *testing.B) {
	bounds := figure.Bounds{To: os.Stdout}
	for _, c := range []struct {
		nodes int
		most  float64 // ms, of docs/launch.md
	}{{100_000, 5}, {1_000_000, 50}} {
		b.Run(fmt.Sprint(c.nodes), func(b *testing.B) {
			for b.Loop() {
				whole(Shape{Kind: Greedy, Cost: planCosts[1]}, c.nodes+1)
			}
			each := figure.Milliseconds(b.Elapsed()) / float64(b.N)
			fmt.Println()
			bounds.AtMost(fmt.Sprintf("planning for %d nodes, ms", c.nodes), each, c.most)
		})
	}
	if err := bounds.Err(); err != nil {
		b.Error(err)
	}
}
