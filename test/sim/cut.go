package sim

import (
	"math"
	"time"

	"ibrun/bootstrap/core"
)

// state is the state of the link between an agent and its parent: up to the parent, and down to the agent.
type state struct{ up, down direction }

// direction is the state of one direction of a link.
type direction struct {
	last time.Duration // time at which the last data sent in this direction arrives
	cut  time.Duration // time until which no data arrives in this direction
}

// Forever is the duration of a cut after which the link is never restored.
const Forever = time.Duration(math.MaxInt64)

// arrival returns the time at which data arrives that is sent now over the link between an agent and its parent. TCP
// retransmits data that a cut has delayed. The link keeps the order.
func (w *World) arrival(a *agent, up bool) (at time.Duration, comes bool) {
	way := &a.link.down
	if up {
		way = &a.link.up
	}
	at = w.now + w.cfg.Hop
	if w.cfg.Jitter > 0 {
		at += time.Duration(w.rand.Int64N(int64(w.cfg.Jitter)))
	}
	if way.cut == Forever {
		return 0, false
	}
	way.last = max(way.last, way.cut, at)
	return way.last, true
}

// Cut delays data on the link between the agent of a node and its parent for a time, in one direction or both. Data
// that was sent before still arrives.
func (w *World) Cut(node uint32, up, down bool, d time.Duration) {
	a := w.agents[node]
	if a == nil {
		return
	}
	until := Forever
	if d < Forever {
		until = w.now + d
	}
	if up {
		a.link.up.cut = max(a.link.up.cut, until)
	}
	if down {
		a.link.down.cut = max(a.link.down.cut, until)
	}
}

func (w *World) isCut(a *agent) bool { return max(a.link.up.cut, a.link.down.cut) > w.now }

// probed returns the state of the connection between an agent and its parent, as a kernel reports it. A cut in either
// direction delays acknowledgements.
func (w *World) probed(below *agent, l core.Link) core.Probed {
	cut := w.isCut(below)
	p := core.Probed{Link: l, Known: true, Waits: cut}
	if cut {
		p.Resent = 8
	}
	return p
}
