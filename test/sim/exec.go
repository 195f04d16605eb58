package sim

import (
	"ibrun/bootstrap/core"
	"ibrun/job"
)

// Exec lets a caller start daemons, now.
func (w *World) Exec(order core.DaemonsAsked) { w.deliver(event{to: w.root, ev: order}) }

// daemons lets the daemons of a node end at once: every thousandth by exit code 7.
func (w *World) daemons(a *agent, e core.StartDaemons) {
	numbers := []uint32{e.Number}
	if e.PerRank {
		numbers = nil
		for _, r := range e.Ranks {
			numbers = append(numbers, uint32(r))
		}
	}
	for _, n := range numbers {
		ev := core.DaemonExited{ID: e.ID, Number: n}
		if n%1000 == 999 {
			ev.Status = job.Status{Kind: job.Exited, Code: 7}
		}
		w.post(0, a, ev)
	}
}
