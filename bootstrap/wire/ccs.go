package wire

import (
	"fmt"

	"ibrun/bootstrap/ccs"
	"ibrun/bootstrap/frame"
	"ibrun/job"
)

// The frames of requests to programs of Charm++ (docs/dev/decisions/0029-charm.md).
const (
	KindCCSRequest frame.Kind = 95 // down
	KindCCSReply   frame.Kind = 96 // up
)

// CCSRequest is a client's request for the process that is a rank. ID is the root's.
type CCSRequest struct {
	ID   uint32
	Rank job.Slot
	ccs.Request
}

// CCSReply answers it. Trouble is why there is no reply; empty: Data is the reply.
type CCSReply struct {
	ID      uint32
	Rank    job.Slot
	Trouble string
	Data    []byte
}

func (CCSRequest) Kind() frame.Kind { return KindCCSRequest }
func (CCSReply) Kind() frame.Kind   { return KindCCSReply }

func (m CCSRequest) Encode(w *frame.Encoder) {
	w.U32(m.ID)
	w.U32(uint32(m.Rank))
	w.Text(m.Handler)
	w.U32(uint32(m.PE))
	w.Bytes(m.Data)
}

func (m CCSReply) Encode(w *frame.Encoder) {
	w.U32(m.ID)
	w.U32(uint32(m.Rank))
	w.UserText(m.Trouble)
	w.Bytes(m.Data)
}

func parseCCSRequest(r *frame.Decoder) frame.Message {
	m := CCSRequest{ID: r.U32(), Rank: job.Slot(r.U32())}
	m.Handler, m.PE, m.Data = r.Text(), int32(r.U32()), r.Bytes(ccs.MaxRequest)
	if m.Check() != nil {
		r.Fail(frame.ErrRange)
	}
	return m
}

func parseCCSReply(r *frame.Decoder) frame.Message {
	m := CCSReply{ID: r.U32(), Rank: job.Slot(r.U32()), Trouble: r.UserText(), Data: r.Bytes(ccs.MaxReply)}
	if m.Trouble != "" && len(m.Data) > 0 {
		r.Fail(frame.ErrRange)
	}
	return m
}

func (m CCSRequest) String() string {
	return fmt.Sprintf("CCSRequest id=%d rank=%d handler=%q pe=%d bytes=%d", m.ID, m.Rank, m.Handler, m.PE, len(m.Data))
}

func (m CCSReply) String() string {
	return fmt.Sprintf("CCSReply id=%d rank=%d trouble=%q bytes=%d", m.ID, m.Rank, m.Trouble, len(m.Data))
}
