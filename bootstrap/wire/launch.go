package wire

import (
	"cmp"
	"math"
	"slices"
	"time"

	"ibrun/bootstrap/frame"
	"ibrun/bootstrap/rankwire"
	"ibrun/job"
)

func (m Launch) Encode(w *frame.Encoder) {
	w.U32(uint32(m.First))
	w.U32(m.Level)
	w.U32(m.Credit)
	w.U32(m.SessionMs)
	w.Bool(m.Replaces)
	encodeNodes(w, m.Nodes)
	w.Uint(uint64(len(m.Share)))
	for _, p := range m.Share {
		encodePart(w, p)
	}
	encodeJob(w, m.Job)
}

func parseLaunch(r *frame.Decoder) frame.Message {
	m := Launch{First: job.NodeIndex(r.U32()), Level: r.U32(), Credit: r.U32(),
		SessionMs: r.U32(), Replaces: r.Bool(), Nodes: decodeNodes(r)}
	m.Share = frame.DecodeSlice(r, partLeast, func() job.Part { return decodePart(r) })
	m.Job = decodeJob(r)
	if r.Err() == nil {
		m.verify(r)
	}
	return m
}

// verify refuses what does not fit together: nodes that the job has not, or not
// with these ranks, twice, or out of order.
func (m Launch) verify(r *frame.Decoder) {
	l, next := m.Job.Layout, job.NodeIndex(0)
	parts := slices.Concat(job.Parts{{First: m.First, Nodes: m.Nodes}}, m.Share)
	slices.SortFunc(parts, func(a, b job.Part) int { return cmp.Compare(a.First, b.First) })
	if m.Level > MaxLevel || len(m.Share) > MaxParts {
		r.Fail(frame.ErrRange)
	}
	for i, p := range m.Share {
		if i > 0 && p.First <= m.Share[i-1].End() {
			r.Fail(frame.ErrCanonical)
		}
	}
	for _, p := range parts {
		if p.First < next || uint64(p.First)+uint64(p.Nodes.Len()) > uint64(l.Nodes()) || !p.Fits(l) {
			r.Fail(frame.ErrRange)
			return
		}
		next = p.End()
	}
}

// partLeast is the least size of a part, in bytes.
const partLeast = 12

// Limits of a Launch.
const (
	MaxParts = 1 << 12 // of a share
	MaxLevel = 1 << 20 // of a tree
)

func encodePart(w *frame.Encoder, p job.Part) {
	w.U32(uint32(p.First))
	encodeNodes(w, p.Nodes)
}

func decodePart(r *frame.Decoder) job.Part {
	return job.Part{First: job.NodeIndex(r.U32()), Nodes: decodeNodes(r)}
}

func encodeNodes(w *frame.Encoder, n job.Nodes) {
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

// decodeNodes keeps the runs as they came.
func decodeNodes(r *frame.Decoder) job.Nodes {
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
		r.Fail(frame.ErrCanonical) // runs that should have been one
	}
	return n
}

// runLeast is the least size of a run, in bytes.
const runLeast = 9

func encodeJob(w *frame.Encoder, j *job.Job) {
	w.Text(j.ID)
	w.Raw(j.Secret[:])
	w.U32(j.Size)
	w.U32(j.Nodes)
	encodePrograms(w, j.Programs)
	w.U32(j.Umask)
	w.Uint(uint64(len(j.Limits)))
	for _, l := range j.Limits {
		w.Byte(l.Resource)
		w.Uint(l.Soft)
		w.Uint(l.Hard)
	}
	encodeStreams(w, j)
	encodeHow(w, j.Launch)
	rankwire.EncodeLayout(w, j.Layout)
	rankwire.EncodeTransport(w, j.Transport)
	encodeBinding(w, j.Binding)
	w.Byte(byte(j.MPI))
	w.Bool(j.PMIPort)
	w.Text(j.FirstHost)
	w.Text(j.Spawner)
	w.U32(j.Depth)
	w.Uint(uint64(len(j.Preput)))
	for _, p := range j.Preput {
		rankwire.EncodeKeyValue(w, p)
	}
	w.Text(j.Hosts)
	w.Uint(uint64(len(j.Own)))
	for _, v := range j.Own {
		w.Text(v.Name)
		w.Byte(byte(v.Fact))
	}
}

// encodePrograms writes programs. Of those that have their surroundings from the one before, which
// with --multi-prog may be a thousand, these are written once.
func encodePrograms(w *frame.Encoder, programs []job.Program) {
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

func sameAround(a, b job.Program) bool {
	return slices.Equal(a.Env, b.Env) && slices.Equal(a.Drop, b.Drop) && a.Dir == b.Dir
}

func decodePrograms(r *frame.Decoder) []job.Program {
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

func decodeJob(r *frame.Decoder) *job.Job {
	j := &job.Job{ID: r.Text()}
	r.Raw(j.Secret[:])
	j.Size, j.Nodes = r.U32(), r.U32()
	j.Programs = decodePrograms(r)
	j.Umask = r.U32()
	j.Limits = frame.DecodeSlice(r, 3, func() job.Limit {
		return job.Limit{Resource: r.Byte(), Soft: r.Uint(math.MaxUint64), Hard: r.Uint(math.MaxUint64)}
	})
	decodeStreams(r, j)
	j.Launch = decodeHow(r)
	j.Layout = rankwire.DecodeLayout(r)
	j.Transport = rankwire.DecodeTransport(r)
	j.Binding = decodeBinding(r)
	if j.MPI = job.MPI(r.Byte()); j.MPI >= job.MPIs {
		r.Fail(frame.ErrRange)
	}
	j.PMIPort = r.Bool()
	j.FirstHost = r.Text()
	j.Spawner, j.Depth = r.Text(), r.U32()
	j.Preput = frame.DecodeSlice(r, 2, func() job.KeyValue { return rankwire.DecodeKeyValue(r) })
	j.Hosts = r.Text()
	j.Own = frame.DecodeSlice(r, 2, func() job.RankVariable {
		v := job.RankVariable{Name: r.Text(), Fact: job.Fact(r.Byte())}
		if v.Fact >= job.Facts {
			r.Fail(frame.ErrRange)
		}
		return v
	})
	if r.Err() == nil && j.Verify() != nil {
		r.Fail(frame.ErrRange)
	}
	return j
}

func encodeStreams(w *frame.Encoder, j *job.Job) {
	w.Text(j.Output.StdoutFile)
	w.Text(j.Output.StderrFile)
	w.Text(j.Output.StdinFile)
	w.Bool(j.Output.Merge)
	w.Bool(j.Output.Copy)
	w.Bool(j.Output.Dirs)
	w.Bool(j.Output.Unbuffered)
	w.Bool(j.Output.Lines)
	w.Bool(j.Output.Terminal)
	encodeWindow(w, j.Output.Window)
	w.Byte(byte(j.Stdin.Mode))
	w.U32(uint32(j.Stdin.Rank))
}

func decodeStreams(r *frame.Decoder, j *job.Job) {
	j.Output = job.Output{
		StdoutFile: r.Text(), StderrFile: r.Text(), StdinFile: r.Text(),
		Merge: r.Bool(), Copy: r.Bool(), Dirs: r.Bool(), Unbuffered: r.Bool(),
		Lines: r.Bool(), Terminal: r.Bool(), Window: decodeWindow(r),
	}
	j.Stdin = job.Stdin{Mode: job.StdinMode(r.Byte()), Rank: job.Slot(r.U32())}
	if j.Stdin.Mode > job.StdinAll {
		r.Fail(frame.ErrRange)
	}
}

func encodeWindow(w *frame.Encoder, size job.Window) {
	w.Uint(uint64(size.Rows))
	w.Uint(uint64(size.Cols))
}

func decodeWindow(r *frame.Decoder) job.Window {
	return job.Window{Rows: uint16(r.Uint(math.MaxUint16)), Cols: uint16(r.Uint(math.MaxUint16))}
}

func encodeHow(w *frame.Encoder, l job.LaunchOptions) {
	w.Text(l.Launcher)
	w.Texts(l.Exec)
	w.Texts(l.Args)
	w.Text(l.SSH)
	w.Text(l.Tree)
	w.U32(l.Batch)
	w.Uint(uint64(l.Timeout))
	w.Uint(uint64(l.Grace))
	w.Text(l.AgentPath)
	w.Bool(l.Verbose)
	w.Bool(l.Timed)
	w.Bool(l.LateBinding)
	w.Bool(l.StartBarrier)
	w.Bool(l.KeepGoing)
	w.Bool(l.Contain)
	w.Bool(l.Record)
	w.Byte(survival(l))
	w.Texts(l.Starter)
	w.Uint(uint64(len(l.Numbers)))
	for _, n := range l.Numbers {
		w.Text(n.Hosts)
		w.U32(n.First)
		w.U32(n.Step)
	}
	w.Bool(l.Hold)
}

// Bits of what a job survives. Without repair this is the flag that it was.
const (
	survivesRank  = 1 << iota // Restarts
	survivesAgent             // Repair
	survivesAll               // RestartAll
)

func survival(l job.LaunchOptions) (bits byte) {
	if l.Restarts {
		bits |= survivesRank
	}
	if l.Repair {
		bits |= survivesAgent
	}
	if l.RestartAll {
		bits |= survivesAll
	}
	return bits
}

func decodeHow(r *frame.Decoder) job.LaunchOptions {
	l := job.LaunchOptions{
		Launcher: r.Text(), Exec: r.Texts(), Args: r.Texts(), SSH: r.Text(), Tree: r.Text(), Batch: r.U32(),
		Timeout: time.Duration(r.Uint(math.MaxInt64)), Grace: time.Duration(r.Uint(math.MaxInt64)),
		AgentPath: r.Text(), Verbose: r.Bool(), Timed: r.Bool(), LateBinding: r.Bool(), StartBarrier: r.Bool(),
		KeepGoing: r.Bool(), Contain: r.Bool(), Record: r.Bool(),
	}
	bits := r.Byte()
	if bits > survivesRank|survivesAgent|survivesAll {
		r.Fail(frame.ErrCanonical)
	}
	l.Restarts, l.Repair, l.RestartAll = bits&survivesRank != 0, bits&survivesAgent != 0, bits&survivesAll != 0
	l.Starter = r.Texts()
	l.Numbers = frame.DecodeSlice(r, 3, func() job.NumberedHosts {
		return job.NumberedHosts{Hosts: r.Text(), First: r.U32(), Step: r.U32()}
	})
	l.Hold = r.Bool()
	return l
}
