package tree

import (
	"math"
	"slices"
	"time"

	"ibrun/internal/job"
)

// Fit is the launch model's constants as one launch shows them.
type Fit struct {
	Cost         // measured costs, and the window of the tree's Shape
	InFlight int // most sessions that a parent had at a time
	Sessions int // that the constants are from
	Most     int // sessions of the parent that made most
}

// leastCost keeps what was measured on something unusually fast a tree that
// can be planned with.
const leastCost = 10 * time.Microsecond

// mostPairs bounds the pairs of one parent that are looked at.
const mostPairs = 1 << 12

// Fit finds SEQ and REM of the sessions over a remote shell. The model says of a
// parent's i-th child, counted from 0, that it is up SEQ*i + REM after its
// parent began: SEQ is the median slope over all pairs of children of one parent
// (Theil's estimate, which a third of outliers cannot move far), REM the median
// of what is left. Children count in the order in which they were begun; those
// that were all in flight together, in the order in which they came up, since
// they share their parent then and the order of beginning says nothing. Of a
// parent with more children than its window only the first windowful counts: the
// others waited for room. Ok is false if there was no session.
//
// A machine that stood still for a while in between leaves slopes that say
// nothing. No session takes less than REM, and no parent longer to start one than
// a session takes as a whole: so REM is at least the shortest session, and SEQ at
// most REM. Without that, such a launch would have the next one planned as a chain.
func (l *Launch) Fit() (fit Fit, ok bool) {
	var slopes []float64
	var all [][]time.Duration // for each parent: times from its first start of a child until each child was up
	shortest := time.Duration(math.MaxInt64)
	for _, list := range l.children() {
		var ups []time.Duration
		for _, i := range list {
			n := &l.Nodes[i]
			if up := n.At[job.LaunchSent]; up != job.Never && !n.Local {
				ups = append(ups, up-l.Nodes[list[0]].At[job.SessionStarted])
				shortest = min(shortest, n.session())
			}
		}
		fit.Most = max(fit.Most, len(ups))
		together := l.inFlight(list)
		if w := l.Shape.Cost.Window; w > 0 {
			ups = ups[:min(w, len(ups))]
		}
		if together >= len(ups) {
			slices.Sort(ups)
		}
		fit.InFlight = max(fit.InFlight, together)
		step := 1 + len(ups)*len(ups)/2/mostPairs
		at := 0
		for a := range ups {
			for b := range ups[:a] {
				if at++; at%step == 0 {
					slopes = append(slopes, float64(ups[a]-ups[b])/float64(a-b))
				}
			}
		}
		all = append(all, ups)
		fit.Sessions += len(ups)
	}
	if fit.Sessions == 0 {
		return fit, false
	}
	fit.Window = l.Shape.Cost.Window
	fit.SEQ = leastCost
	if len(slopes) > 0 {
		slices.Sort(slopes)
		fit.SEQ = max(fit.SEQ, time.Duration(slopes[len(slopes)/2]))
	}
	var rest []time.Duration
	for _, ups := range all {
		for turn, up := range ups {
			rest = append(rest, up-time.Duration(turn)*fit.SEQ)
		}
	}
	fit.REM = max(leastCost, shortest, quantile(rest, 0.5))
	fit.SEQ = min(fit.SEQ, fit.REM)
	return fit, true
}

// inFlight is the most sessions of one parent that were under way at a time.
func (l *Launch) inFlight(list []int) (most int) {
	var ends []time.Duration
	for _, i := range list {
		n := &l.Nodes[i]
		ends = slices.DeleteFunc(ends, func(end time.Duration) bool { return end <= n.At[job.SessionStarted] })
		if up := n.At[job.LaunchSent]; up != job.Never {
			ends = append(ends, up)
		}
		most = max(most, len(ends))
	}
	return most
}

// Replay is when each agent would have been up, in rising order, had each session
// taken what the model says, in the tree that there was.
func (l *Launch) Replay(c Cost) (up []time.Duration) {
	children := l.children()
	var follow func(parent job.NodeIndex, from time.Duration)
	follow = func(parent job.NodeIndex, from time.Duration) {
		turn := 0
		for _, i := range children[parent] {
			at := from
			if !l.Nodes[i].Local {
				at += c.Start(turn) + c.REM
				turn++
			}
			up = append(up, at)
			follow(l.Nodes[i].Node+1, at)
		}
	}
	follow(0, 0)
	slices.Sort(up)
	return up
}

// quantile of a list that is sorted on the way; 0 of none.
func quantile(list []time.Duration, q float64) time.Duration {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[min(int(q*float64(len(list))), len(list)-1)]
}
