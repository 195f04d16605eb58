package tree

import (
	"math"
	"sort"
	"time"
)

// Window is the number of sessions a parent begins with, before it knows whether
// they run or wait: enough to cover the idle half of an ssh login on a few cores
// (facts measured by us: throughput is flat from 16 on).
const Window = 16

// DefaultCost is used before anything was measured: the paper's setting S1,
// one rsh or a fast ssh over a cluster's own network.
var DefaultCost = Cost{SEQ: 7 * time.Millisecond, REM: 172 * time.Millisecond}

// Reach is N(t), the number of agents that can be up by time t, the first one
// included, or most if there are more. In closed form, without a tree:
//
//	N(t) = sum over a >= 0 with a*REM <= t of C(a + floor((t - a*REM)/SEQ), a)
//
// (an agent is named by its depth a and by the turns that its ancestors waited). SEQ and REM must
// be above zero, as Parse sees to. With a window that makes parents wait, see reachInWaves.
func (c Cost) Reach(t time.Duration, most int) int {
	switch {
	case t < 0:
		return 0
	case c.waits():
		return c.reachInWaves(t, most)
	}
	total := 0
	for a := int64(0); a*int64(c.REM) <= int64(t); a++ {
		turns := (int64(t) - a*int64(c.REM)) / int64(c.SEQ)
		total += int(choose(a+turns, a, float64(most)))
		if total >= most {
			return most
		}
	}
	return total
}

// choose is the binomial coefficient, or most if it is larger.
func choose(n, k int64, most float64) float64 {
	k = min(k, n-k)
	r := 1.0
	for i := int64(1); i <= k; i++ {
		r = math.Round(r * float64(n-k+i) / float64(i))
		if r >= most {
			return most
		}
	}
	return r
}

// Optimum is T*(n), the least time in which n agents can be up, the root
// included: the makespan of the greedy tree.
func (c Cost) Optimum(n int) time.Duration {
	if n <= 1 {
		return 0
	}
	// T* is a*REM + b*SEQ for some depth a and turns b; the search runs over
	// multiples of one nanosecond, the resolution of a Duration.
	hi := c.REM + c.Start(n-2)
	return time.Duration(sort.Search(int(hi), func(t int) bool { return c.Reach(time.Duration(t), n) >= n }))
}

// Makespan is the model's time until the last of n agents is up:
//
//	launch(child i) = launch(parent) + Start(i) + REM
//
// It follows the tree itself, and so holds for every shape.
func (s Shape) Makespan(n int) (last time.Duration) {
	// Subtrees of the same size at the same level take the same time. So only the one that is launched
	// last is followed.
	latest := map[int]time.Duration{n: 0} // by size of a subtree at this level: time of its latest launch
	for level := 0; len(latest) > 0; level++ {
		next := map[int]time.Duration{}
		for n, at := range latest {
			last = max(last, at)
			for i, size := range s.Split(level, n) {
				next[size] = max(next[size], at+s.Cost.Start(i)+s.Cost.REM)
			}
		}
		latest = next
	}
	return last
}

// Resolve returns Flat or Greedy in place of Auto, whichever has the smaller predicted makespan for n
// agents. It returns any other shape unchanged.
func (s Shape) Resolve(n int) Shape {
	if s.Kind != Auto {
		return s
	}
	s.Kind = Flat
	if n > 1 && s.Cost.Optimum(n) < s.Cost.REM+s.Cost.Start(n-2) {
		s.Kind = Greedy
	}
	return s
}

// Share is how many of n nodes that nobody has begun a child should take that
// can begin now. It is the child's part of what can be done in the least time in
// which it, its parent, which can begin after own, and others that will be up after
// the given times, each taking a share then, can do all of them.
func (c Cost) Share(n int, own time.Duration, waits []time.Duration) int {
	if n <= 0 {
		return 0
	}
	below := func(t time.Duration) int { return max(c.Reach(t, n+1)-1, 0) }
	all := func(t time.Duration) int {
		sum := below(t) + below(t-own)
		for _, w := range waits {
			sum += below(t - w)
		}
		return sum
	}
	hi := c.REM + time.Duration(n)*c.SEQ
	t := time.Duration(sort.Search(int(hi), func(t int) bool { return all(time.Duration(t)) >= n }))
	return (n*below(t) + all(t) - 1) / all(t)
}

// Windowed is the cost at a parent that has at most w sessions in flight.
func (c Cost) Windowed(w int) Cost {
	c.SEQ = max(c.SEQ, c.REM/time.Duration(w))
	return c
}

// leastWindow bounds a window that follows what is measured: with fewer sessions a
// parent would be idle whenever one is slow.
const leastWindow = 4

// MostWindow bounds it, too: as many sessions reach all nodes of most clusters at
// once, and more would be a burden to a directory service that all of them ask.
const MostWindow = 256

// Saturate is W*, the least number of sessions in flight that keeps a parent's
// cores busy: each takes so much of the parent's CPU time, and rem in all if it
// has the parent to itself. A larger one makes every child late, a smaller one
// leaves cores idle.
func Saturate(cores int, rem, cpu time.Duration) int {
	w := (time.Duration(cores)*rem + cpu - 1) / cpu
	return int(min(max(w, leastWindow), MostWindow))
}
