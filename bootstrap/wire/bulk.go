package wire

import (
	"fmt"

	"ibrun/bootstrap/frame"
	"ibrun/bootstrap/rankwire"
)

// Blocks are the node blocks of a subtree on the way up, of all nodes on the way down.
type Blocks struct{ Values frame.Values } // of at most MaxGather bytes

// BulkFetch says on the way up that a node wants all values that PMI clients of all
// nodes have put by a fence, and asks each subtree for its own on the way down.
type BulkFetch struct{ Fence uint32 } // counted from 1

// BulkValues is what a subtree's nodes give on the way up, one value for each node that
// has something; what all have given on the way down to those that asked.
type BulkValues struct {
	Fence  uint32
	Values frame.Values // of at most MaxGather bytes
}

// TableFetch says on the way up that a node wants the blocks of all nodes, and asks each subtree
// for its own on the way down.
type TableFetch struct{ Round uint32 } // counted from 1

// TableValues is Blocks, in answer to a TableFetch: as far as they are known, without waiting.
type TableValues struct {
	Round  uint32
	Values frame.Values // of at most MaxGather bytes
}

func (Blocks) Kind() frame.Kind      { return KindBlocks }
func (BulkFetch) Kind() frame.Kind   { return KindBulkFetch }
func (BulkValues) Kind() frame.Kind  { return KindBulkValues }
func (TableFetch) Kind() frame.Kind  { return KindTableFetch }
func (TableValues) Kind() frame.Kind { return KindTableValues }

func (m Blocks) Encode(w *frame.Encoder)         { m.Values.Encode(w) }
func parseBlocks(r *frame.Decoder) frame.Message { return Blocks{decodeValues(r, rankwire.MaxValue)} }

func (m BulkFetch) Encode(w *frame.Encoder) { w.U32(m.Fence) }

func (m BulkValues) Encode(w *frame.Encoder) {
	w.U32(m.Fence)
	m.Values.Encode(w)
}

func parseBulkFetch(r *frame.Decoder) frame.Message { return BulkFetch{fence(r)} }
func parseBulkValues(r *frame.Decoder) frame.Message {
	return BulkValues{Fence: fence(r), Values: decodeValues(r, rankwire.MaxGather)}
}

func (m TableFetch) Encode(w *frame.Encoder) { w.U32(m.Round) }

func (m TableValues) Encode(w *frame.Encoder) {
	w.U32(m.Round)
	m.Values.Encode(w)
}

func parseTableFetch(r *frame.Decoder) frame.Message { return TableFetch{fence(r)} }
func parseTableValues(r *frame.Decoder) frame.Message {
	return TableValues{Round: fence(r), Values: decodeValues(r, rankwire.MaxValue)}
}

func fence(r *frame.Decoder) uint32 {
	n := r.U32()
	if n == 0 {
		r.Fail(frame.ErrRange)
	}
	return n
}

func decodeValues(r *frame.Decoder, most int) frame.Values {
	l := frame.DecodeValues(r, func(v []byte) error {
		if len(v) > most {
			return frame.ErrRange
		}
		return nil
	})
	if l.Size() > rankwire.MaxGather {
		r.Fail(frame.ErrRange)
	}
	return l
}

func (m Blocks) String() string     { return fmt.Sprintf("Blocks n=%d", m.Values.Len()) }
func (m BulkFetch) String() string  { return fmt.Sprintf("BulkFetch fence=%d", m.Fence) }
func (m TableFetch) String() string { return fmt.Sprintf("TableFetch round=%d", m.Round) }
func (m TableValues) String() string {
	return fmt.Sprintf("TableValues round=%d n=%d", m.Round, m.Values.Len())
}
func (m BulkValues) String() string {
	return fmt.Sprintf("BulkValues fence=%d n=%d", m.Fence, m.Values.Len())
}
