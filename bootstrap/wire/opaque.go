package wire

import (
	"math"
	"slices"

	"ibrun/bootstrap/wire/frame"
	"ibrun/internal/job"
)

// EncodeNodes appends the encoded form of n to w.
func EncodeNodes(w *frame.Encoder, n job.Nodes) {
	w.U32(uint32(n.Base()))
	runs := 0
	for range n.All() {
		runs++
	}
	w.Uint(uint64(runs))
	for r := range n.All() {
		*w = r.AppendTo(*w)
	}
}

// DecodeNodes reads a table of nodes from r. The table stores its runs in encoded form to save memory. If DecodeNodes
// fails, r.Err returns the error.
func DecodeNodes(r *frame.Decoder) job.Nodes {
	base := job.Slot(r.U32())
	nodes, ranks := uint64(0), uint64(base)
	runs := r.Count(runLeast)
	from := r.Rest()
	for range runs {
		r.Bytes(math.MaxInt32) // prefix
		r.Bytes(math.MaxInt32) // suffix
		width, lo, count := r.Byte(), r.Uint(math.MaxInt64), r.U32()
		r.Bytes(math.MaxInt32) // user
		r.Bytes(math.MaxInt32) // HCA
		r.U32()                // slots
		nodes += uint64(count)
		ranks += uint64(count) * uint64(r.U32())
		if width > 20 || count == 0 || lo > math.MaxInt64-uint64(count) || nodes > job.MaxNodes ||
			ranks > job.MaxRanks {
			r.Fail(frame.ErrRange)
		}
		if r.Err() != nil {
			return job.Nodes{}
		}
	}
	packed := from[:len(from)-len(r.Rest())]
	if r.Charge(len(packed) + job.TableSize(runs)); r.Err() != nil {
		return job.Nodes{}
	}
	if runs == 0 {
		r.Fail(frame.ErrRange)
		return job.Nodes{}
	}
	n, ok := job.UnpackNodes(base, runs, string(packed))
	if !ok {
		r.Fail(frame.ErrCanonical) // two neighbouring runs can be merged into one
	}
	return n
}

// runLeast is the minimum size of a run of nodes in encoded form, in bytes.
const runLeast = 9

// EncodePrograms appends the encoded form of programs to w. It omits Env, Drop and Dir of a program if the previous
// program has the same values, because a job with --multi-prog can have a thousand programs with the same environment.
func EncodePrograms(w *frame.Encoder, programs []job.Program) {
	w.Uint(uint64(len(programs)))
	for i, p := range programs {
		w.U32(uint32(p.First))
		w.U32(p.Count)
		w.U32(p.App)
		w.U32(p.Offset)
		w.Bool(p.Expand)
		w.Texts(p.Argv)
		again := i > 0 && sameAround(programs[i-1], p)
		w.Bool(again)
		if !again {
			w.Texts(p.Env)
			w.Texts(p.Drop)
			w.Text(p.Dir)
		}
	}
}

// sameAround reports whether two programs have the same Env, Drop and Dir.
func sameAround(a, b job.Program) bool {
	return slices.Equal(a.Env, b.Env) && slices.Equal(a.Drop, b.Drop) && a.Dir == b.Dir
}

// DecodePrograms reads programs from r. If EncodePrograms omitted Env, Drop and Dir of a program, the program shares
// the memory of those of the previous one. If DecodePrograms fails, r.Err returns the error.
func DecodePrograms(r *frame.Decoder) []job.Program {
	var before *job.Program
	return frame.DecodeSlice(r, 7, func() job.Program {
		p := job.Program{First: job.Rank(r.U32()), Count: r.U32(), App: r.U32(), Offset: r.U32(), Expand: r.Bool(),
			Argv: r.Texts()}
		again := r.Bool()
		switch {
		case again && before == nil:
			r.Fail(frame.ErrRange)
		case again:
			p.Env, p.Drop, p.Dir = before.Env, before.Drop, before.Dir
		default:
			p.Env, p.Drop, p.Dir = r.Texts(), r.Texts(), r.Text()
			if before != nil && sameAround(*before, p) {
				r.Fail(frame.ErrCanonical)
			}
		}
		before = &p
		return p
	})
}
