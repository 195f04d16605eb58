package sim

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"ibrun/bootstrap/core/flow"
	"ibrun/internal/job"
)

// Exec lets a caller start daemons, now.
func (w *World) Exec(order flow.DaemonsAsked) { w.deliver(event{to: w.root, ev: order}) }

// Session lets a tool start members, now.
func (w *World) Session(order flow.SessionAsked) { w.deliver(event{to: w.root, ev: order}) }

// daemon is one that runs on a node.
type daemon struct{ id, number uint32 }

// daemons starts those of a node. They end at once, or when Config.Daemon says so: every thousandth
// by exit code 7.
func (w *World) daemons(a *agent, e flow.StartDaemons) {
	numbers := []uint32{e.Number}
	if e.Count > 0 {
		numbers = nil
		for k := range e.Count {
			numbers = append(numbers, uint32(e.First)+k)
		}
	} else if e.PerRank {
		numbers = nil
		for _, r := range e.Ranks {
			numbers = append(numbers, uint32(r))
		}
	}
	for _, n := range numbers {
		s := job.Status{}
		if n%1000 == 999 {
			s = job.Status{Kind: job.Exited, Code: 7}
		}
		if w.cfg.Daemon == nil {
			w.post(0, a, flow.DaemonExited{ID: e.ID, Number: n, Status: s})
			continue
		}
		d := daemon{e.ID, n}
		if a.daemons == nil {
			a.daemons = map[daemon]bool{}
		}
		a.daemons[d] = true
		if life := w.cfg.Daemon(a.node, e); life < Forever {
			w.At(w.now+life, func() { w.daemonExited(a, d, s) })
		}
	}
}

func (w *World) daemonExited(a *agent, d daemon, s job.Status) {
	if a.daemons[d] {
		delete(a.daemons, d)
		w.post(0, a, flow.DaemonExited{ID: d.id, Number: d.number, Status: s})
	}
}

// killDaemons ends those of some orders.
func (w *World) killDaemons(a *agent, which func(id uint32) bool) {
	inOrder := func(x, y daemon) int { return cmp.Or(cmp.Compare(x.id, y.id), cmp.Compare(x.number, y.number)) }
	for _, d := range slices.SortedFunc(maps.Keys(a.daemons), inOrder) {
		if which(d.id) {
			w.daemonExited(a, d, job.Status{Kind: job.Signaled, Code: 9})
		}
	}
}

// printed is output that a caller has got. It takes it some time later.
func (w *World) printed(e flow.DaemonsPrinted) {
	w.Printed += len(e.Data)
	w.post(time.Millisecond, w.root, flow.DaemonsTaken{ID: e.ID, N: uint32(len(e.Data))})
}
