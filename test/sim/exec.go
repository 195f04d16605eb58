package sim

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"ibrun/bootstrap/core/flow"
	"ibrun/internal/job"
)

// Exec delivers the order of a caller to start daemons to the root, at the present time.
func (w *World) Exec(order flow.DaemonsAsked) { w.deliver(event{to: w.root, ev: order}) }

// Session delivers the order of a tool to start the members of a session to the root, at the present time.
func (w *World) Session(order flow.SessionAsked) { w.deliver(event{to: w.root, ev: order}) }

// daemon identifies a daemon that runs on a node, by the ID of its order and its number in the order.
type daemon struct{ id, number uint32 }

// daemons starts the daemons of the order e on the node of a. They exit at once, or after the time that Config.Daemon
// returns. Every thousandth daemon exits with code 7.
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

// killDaemons ends the daemons of a for whose order which returns true.
func (w *World) killDaemons(a *agent, which func(id uint32) bool) {
	inOrder := func(x, y daemon) int { return cmp.Or(cmp.Compare(x.id, y.id), cmp.Compare(x.number, y.number)) }
	for _, d := range slices.SortedFunc(maps.Keys(a.daemons), inOrder) {
		if which(d.id) {
			w.daemonExited(a, d, job.Status{Kind: job.Signaled, Code: 9})
		}
	}
}

// printed counts output that the root has passed to a caller. The caller confirms it one millisecond later.
func (w *World) printed(e flow.DaemonsPrinted) {
	w.Printed += len(e.Data)
	w.post(time.Millisecond, w.root, flow.DaemonsTaken{ID: e.ID, N: uint32(len(e.Data))})
}
