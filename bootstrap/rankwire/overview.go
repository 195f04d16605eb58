package rankwire

import (
	"fmt"

	"ibrun/bootstrap/frame"
)

// Overview asks what all ranks of the job do. It is answered by one OverviewReply. On each link one
// is open at a time, however many ranks ask (docs/dev/decisions/0026-gdb-pipe-overview.md).
type Overview struct{}

// OverviewReply is what all ranks of the job do.
type OverviewReply struct{ Standings }

func (Overview) Kind() frame.Kind      { return KindOverview }
func (OverviewReply) Kind() frame.Kind { return KindOverviewReply }

func (Overview) Encode(*frame.Encoder)          {}
func (m OverviewReply) Encode(w *frame.Encoder) { m.Standings.Encode(w) }

func parseOverview(*frame.Decoder) frame.Message { return Overview{} }

func parseOverviewReply(r *frame.Decoder) frame.Message { return OverviewReply{DecodeStandings(r)} }

func (Overview) String() string { return "Overview" }

func (m OverviewReply) String() string {
	return fmt.Sprintf("OverviewReply nodes=%d silent=%d groups=%d rows=%d", m.Nodes, m.Silent, m.Groups.Len(),
		m.Rows.Len())
}
