package sim

import (
	"ibrun/bootstrap/core"
	"ibrun/bootstrap/core/queries"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/rankwire"
)

// Ask lets the user ask the job, now.
func (w *World) Ask(q wire.Query) { w.deliver(event{to: w.root, ev: core.Asked{Query: q}}) }

// inspect answers for a node at once, with what its core knows.
func (w *World) inspect(a *agent, e core.Inspect) {
	if w.cfg.Mute != nil && w.cfg.Mute(a.node) {
		return
	}
	rows := make([]rankwire.RankRow, len(e.Ranks))
	for i, r := range e.Ranks {
		rows[i] = rankwire.RankRow{Rank: r.Rank, Host: e.Host, PID: 1 + uint32(r.Rank), State: r.State, Op: r.Op,
			Call: r.Call, AgeMs: uint32(r.Age.Milliseconds()), CPUMs: 10, Memory: 1 << 20, Waits: "poll"}
	}
	w.post(0, a, core.Inspected{Reply: wire.Reply{ID: e.ID, Standings: queries.Sum(e.Question, rows, nil)}})
}
