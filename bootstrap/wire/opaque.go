package wire

import (
	"math"
	"slices"

	"ibrun/bootstrap/wire/frame"
	"ibrun/internal/job"
)

// EncodeNodes appends the encoded form of n to w.
func EncodeNodes(w *frame.Encoder, n *job.Nodes) {
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

// DecodeNodes reads a table of nodes from r into n. The table stores its runs in encoded form to save memory. If
// DecodeNodes fails, r.Err returns the error.
func DecodeNodes(r *frame.Decoder, n *job.Nodes) {
	base := job.Slot(r.U32())
	nodes, ranks := uint64(0), uint64(base)
	runs := r.Count()
	from := r.Rest()
	for range runs {
		r.Bytes() // prefix
		r.Bytes() // suffix
		width, lo, count := r.Byte(), r.Uint(math.MaxInt64), r.U32()
		r.Bytes() // user
		r.Bytes() // HCA
		r.U32()   // slots
		nodes += uint64(count)
		ranks += uint64(count) * uint64(r.U32())
		if width > 20 || count == 0 || lo > math.MaxInt64-uint64(count) || nodes > job.MaxNodes ||
			ranks > job.MaxRanks {
			r.Fail(frame.ErrRange)
		}
		if r.Err() != nil {
			return
		}
	}
	packed := from[:len(from)-len(r.Rest())]
	r.Charge(len(packed) + job.TableSize(runs))
	r.Must(runs > 0)
	if r.Err() != nil {
		return
	}
	var ok bool
	if *n, ok = job.UnpackNodes(base, runs, string(packed)); !ok {
		r.Fail(frame.ErrCanonical) // two neighbouring runs can be merged into one
	}
}

// EncodePrograms appends the encoded form of programs to w. It omits Env, Drop and Dir of a program if the previous
// program has the same values, because a job with --multi-prog can have a thousand programs with the same environment.
func EncodePrograms(w *frame.Encoder, programs *[]job.Program) {
	w.Uint(uint64(len(*programs)))
	for i, p := range *programs {
		w.U32(uint32(p.First))
		w.U32(p.Count)
		w.U32(p.App)
		w.U32(p.Offset)
		w.Bool(p.Expand)
		w.Texts(p.Argv)
		again := i > 0 && sameAround(&(*programs)[i-1], &p)
		w.Bool(again)
		if !again {
			w.Texts(p.Env)
			w.Texts(p.Drop)
			w.Text(p.Dir)
		}
	}
}

// sameAround reports whether two programs have the same Env, Drop and Dir.
func sameAround(a, b *job.Program) bool {
	return slices.Equal(a.Env, b.Env) && slices.Equal(a.Drop, b.Drop) && a.Dir == b.Dir
}

// DecodePrograms reads a list of programs from r. If EncodePrograms omitted Env, Drop and Dir of a program, the program
// shares the memory of those of the previous one. If DecodePrograms fails, r.Err returns the error.
func DecodePrograms(r *frame.Decoder, programs *[]job.Program) {
	list := frame.NewSlice[job.Program](r)
	for i := range list {
		p := &list[i]
		p.First, p.Count, p.App, p.Offset, p.Expand = job.Rank(r.U32()), r.U32(), r.U32(), r.U32(), r.Bool()
		p.Argv = r.Texts()
		again := r.Bool()
		switch {
		case again && i == 0:
			r.Fail(frame.ErrRange)
		case again:
			p.Env, p.Drop, p.Dir = list[i-1].Env, list[i-1].Drop, list[i-1].Dir
		default:
			p.Env, p.Drop, p.Dir = r.Texts(), r.Texts(), r.Text()
			if i > 0 && sameAround(&list[i-1], p) {
				r.Fail(frame.ErrCanonical)
			}
		}
	}
	*programs = list
}
