package wire

import (
	"fmt"
	"slices"
)

// Wish says on the way up that a node wants all values that PMI clients of all
// nodes have put by a fence, and asks each subtree for its own on the way down.
type Wish struct{ Fence uint32 } // counted from 1

// Pool is what a subtree's nodes give on the way up, one value for each node that
// has something; what all have given on the way down to those who wished.
type Pool struct {
	Fence  uint32
	Values Values // of at most MaxGather bytes
}

func (Wish) Kind() Kind { return KindWish }
func (Pool) Kind() Kind { return KindPool }

func (m Wish) append(w *writer) { w.u32(m.Fence) }

func (m Pool) append(w *writer) {
	w.u32(m.Fence)
	appendList(w, m.Values)
}

func parseWish(r *reader) Message { return Wish{fence(r)} }
func parsePool(r *reader) Message { return Pool{Fence: fence(r), Values: parseValues(r, MaxGather)} }

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

func (m Wish) String() string { return fmt.Sprintf("Wish fence=%d", m.Fence) }
func (m Pool) String() string { return fmt.Sprintf("Pool fence=%d n=%d", m.Fence, m.Values.Len()) }
