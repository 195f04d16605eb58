package wire

import (
	"fmt"
	"slices"
)

// BulkFetch says on the way up that a node wants all values that PMI clients of all
// nodes have put by a fence, and asks each subtree for its own on the way down.
type BulkFetch struct{ Fence uint32 } // counted from 1

// BulkValues is what a subtree's nodes give on the way up, one value for each node that
// has something; what all have given on the way down to those that asked.
type BulkValues struct {
	Fence  uint32
	Values Values // of at most MaxGather bytes
}

func (BulkFetch) Kind() Kind  { return KindBulkFetch }
func (BulkValues) Kind() Kind { return KindBulkValues }

func (m BulkFetch) append(w *writer) { w.u32(m.Fence) }

func (m BulkValues) append(w *writer) {
	w.u32(m.Fence)
	appendList(w, m.Values)
}

func parseBulkFetch(r *reader) Message { return BulkFetch{fence(r)} }
func parseBulkValues(r *reader) Message {
	return BulkValues{Fence: fence(r), Values: parseValues(r, MaxGather)}
}

func fence(r *reader) uint32 {
	n := r.u32()
	if n == 0 {
		r.fail(ErrRange)
	}
	return n
}

// NewValues packs values.
func NewValues(values ...[]byte) Values { return listOf[[]byte, valueCodec](slices.Values(values)) }

func parseValues(r *reader, most int) Values {
	l := parseList[[]byte, valueCodec](r, 1, func(v []byte) error {
		if len(v) > most {
			return ErrRange
		}
		return nil
	})
	if l.Size() > MaxGather {
		r.fail(ErrRange)
	}
	return l
}

func (m BulkFetch) String() string { return fmt.Sprintf("BulkFetch fence=%d", m.Fence) }
func (m BulkValues) String() string {
	return fmt.Sprintf("BulkValues fence=%d n=%d", m.Fence, m.Values.Len())
}
