package wire

import (
	"fmt"

	"ibrun/bootstrap/frame"
	"ibrun/job"
)

// MaxRecord bounds the data in one Record, in bytes.
const MaxRecord = 64 << 10

// Record carries a piece of what package flight has recorded of an agent.
type Record struct {
	Node job.NodeIndex // on which the agent runs
	Data []byte        // up to MaxRecord bytes
}

func (Record) Kind() frame.Kind { return KindRecord }

func (m Record) Encode(w *frame.Encoder) { w.U32(uint32(m.Node)); w.Bytes(m.Data) }

func parseRecord(r *frame.Decoder) frame.Message {
	return Record{Node: job.NodeIndex(r.U32()), Data: r.Bytes(MaxRecord)}
}

func (m Record) String() string { return fmt.Sprintf("Record node=%d bytes=%d", m.Node, len(m.Data)) }
