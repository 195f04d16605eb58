package rankwire

import (
	"fmt"

	"ibrun/bootstrap/frame"
	"ibrun/job"
)

// Restarted tells a rank that others were restarted and count from Epoch on. Collectives up to Op
// have failed, and the next one has the number after it. Op 0: it was before the rank has joined.
type Restarted struct {
	First job.Slot
	Count uint32
	Epoch uint16
	Op    uint32
}

func (Restarted) Kind() frame.Kind { return KindRestarted }

func (m Restarted) Encode(w *frame.Encoder) {
	w.U32(uint32(m.First))
	w.U32(m.Count)
	w.U32(uint32(m.Epoch))
	w.U32(m.Op)
}

func parseRestarted(r *frame.Decoder) frame.Message {
	m := Restarted{First: job.Slot(r.U32()), Count: r.U32(), Epoch: uint16(r.Uint(1<<16 - 1)), Op: r.U32()}
	if m.Count == 0 || uint64(m.First)+uint64(m.Count) > job.MaxRanks || job.StartOf(m.Epoch) == 0 {
		r.Fail(frame.ErrRange)
	}
	return m
}

func (m Restarted) String() string {
	return fmt.Sprintf("Restarted rank=%d+%d epoch=%d op=%d", m.First, m.Count, m.Epoch, m.Op)
}
