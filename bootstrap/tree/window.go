package tree

import (
	"math"
	"time"
)

// waits reports whether the window makes a parent wait for a child to be up
// before it starts another one.
func (c Cost) waits() bool {
	return c.Window > 0 && time.Duration(c.Window) <= (c.REM-1)/c.SEQ
}

// Start is when a parent starts its i-th child, counted from 0, after its
// first one: SEQ after the child before, and not before there is room in the
// window. So children come in waves, one each REM.
func (c Cost) Start(i int) time.Duration {
	if !c.waits() {
		return time.Duration(i) * c.SEQ
	}
	return time.Duration(i/c.Window)*c.REM + time.Duration(i%c.Window)*c.SEQ
}

// reachInWaves is Reach with a window w that makes parents wait:
//
//	N(t) = 1 + sum over 1 <= a <= m with m*REM <= t of C(m-1, a-1) * D(a, floor((t - m*REM)/SEQ))
//
// An agent is named by its depth a, by the waves that its ancestors waited,
// which are m-a in all, and by its and their places in their waves: D(a, x) is
// the number of lists of a places, each from 0 to w-1, whose sum is at most x.
func (c Cost) reachInWaves(t time.Duration, most int) int {
	total := 1.0
	for m := int64(1); m*int64(c.REM) <= int64(t) && total < float64(most); m++ {
		turns := (int64(t) - m*int64(c.REM)) / int64(c.SEQ)
		for a := int64(1); a <= m && total < float64(most); a++ {
			total += choose(m-1, a-1, math.MaxFloat64) * places(a, turns, int64(c.Window))
		}
	}
	return int(min(total, float64(most)))
}

// places is D of reachInWaves, by inclusion and exclusion of lists with places
// of w and more. All terms are whole numbers below 1<<53 where the result is
// below the number of nodes that a job can have.
func places(a, x, w int64) float64 {
	if x >= a*(w-1) {
		return math.Pow(float64(w), float64(a))
	}
	sum, sign := 0.0, 1.0
	for j := int64(0); j <= a && j*w <= x; j++ {
		sum += sign * choose(a, j, math.MaxFloat64) * choose(x-j*w+a, a, math.MaxFloat64)
		sign = -sign
	}
	return sum
}
