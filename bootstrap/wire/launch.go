package wire

import (
	"cmp"
	"math"
	"slices"
	"time"

	"ibrun/job"
)

func (m Launch) append(w *writer) {
	w.node(m.First)
	w.u32(m.Level)
	w.u32(m.Credit)
	appendNodes(w, m.Nodes)
	w.uint(uint64(len(m.Share)))
	for _, p := range m.Share {
		appendPart(w, p)
	}
	appendJob(w, m.Job)
}

func parseLaunch(r *reader) Message {
	m := Launch{First: r.node(), Level: r.u32(), Credit: r.u32(), Nodes: parseNodes(r)}
	m.Share = collect(r, partLeast, func() job.Part { return parsePart(r) })
	m.Job = parseJob(r)
	if r.err == nil {
		m.verify(r)
	}
	return m
}

// verify refuses what does not fit together: nodes that the job has not, or not
// with these ranks, twice, or out of order.
func (m Launch) verify(r *reader) {
	l, next := m.Job.Layout, job.NodeIndex(0)
	parts := slices.Concat(job.Parts{{First: m.First, Nodes: m.Nodes}}, m.Share)
	slices.SortFunc(parts, func(a, b job.Part) int { return cmp.Compare(a.First, b.First) })
	if m.Level > MaxLevel || len(m.Share) > MaxParts {
		r.fail(ErrRange)
	}
	for i, p := range m.Share {
		if i > 0 && p.First <= m.Share[i-1].End() {
			r.fail(ErrCanonical)
		}
	}
	for _, p := range parts {
		if p.First < next || uint64(p.First)+uint64(p.Nodes.Len()) > uint64(l.Nodes()) || !p.Fits(l) {
			r.fail(ErrRange)
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

func appendPart(w *writer, p job.Part) {
	w.node(p.First)
	appendNodes(w, p.Nodes)
}

func parsePart(r *reader) job.Part { return job.Part{First: r.node(), Nodes: parseNodes(r)} }

func appendNodes(w *writer, n job.Nodes) {
	w.slot(n.Base())
	runs := 0
	for range n.All() {
		runs++
	}
	w.uint(uint64(runs))
	for r := range n.All() {
		*w = r.AppendTo(*w)
	}
}

// parseNodes keeps the runs as they came.
func parseNodes(r *reader) job.Nodes {
	base := r.slot()
	nodes, ranks := uint64(0), uint64(base)
	runs := r.count(runLeast)
	from := r.rest
	for range runs {
		r.bytes(math.MaxInt32) // prefix
		r.bytes(math.MaxInt32) // suffix
		width, lo, count := r.byte(), r.uint(math.MaxInt64), r.u32()
		r.bytes(math.MaxInt32) // user
		r.bytes(math.MaxInt32) // HCA
		r.u32()                // slots
		nodes += uint64(count)
		ranks += uint64(count) * uint64(r.u32())
		if width > 20 || count == 0 || lo > math.MaxInt64-uint64(count) || nodes > job.MaxNodes || ranks > job.MaxRanks {
			r.fail(ErrRange)
		}
		if r.err != nil {
			return job.Nodes{}
		}
	}
	packed := from[:len(from)-len(r.rest)]
	if r.charge(len(packed) + job.TableSize(runs)); r.err != nil {
		return job.Nodes{}
	}
	if runs == 0 {
		r.fail(ErrRange)
		return job.Nodes{}
	}
	n, ok := job.UnpackNodes(base, runs, string(packed))
	if !ok {
		r.fail(ErrCanonical) // runs that should have been one
	}
	return n
}

// runLeast is the least size of a run, in bytes.
const runLeast = 9

func appendJob(w *writer, j *job.Job) {
	w.string(j.ID)
	*w = append(*w, j.Secret[:]...)
	w.u32(j.Size)
	w.u32(j.Nodes)
	appendPrograms(w, j.Programs)
	w.u32(j.Umask)
	w.uint(uint64(len(j.Limits)))
	for _, l := range j.Limits {
		w.byte(l.Resource)
		w.uint(l.Soft)
		w.uint(l.Hard)
	}
	appendStreams(w, j)
	appendHow(w, j.Launch)
	appendLayout(w, j.Layout)
	appendTransport(w, j.Transport)
	appendBinding(w, j.Binding)
	w.byte(byte(j.MPI))
	w.bool(j.PMIPort)
	w.string(j.FirstHost)
	w.string(j.Spawner)
	w.u32(j.Depth)
	w.uint(uint64(len(j.Preput)))
	for _, p := range j.Preput {
		pairCodec{}.append(w, p)
	}
}

// appendPrograms writes programs. Of those that have their surroundings from the one before, which
// with --multi-prog may be a thousand, these are written once.
func appendPrograms(w *writer, programs []job.Program) {
	w.uint(uint64(len(programs)))
	for i, p := range programs {
		w.u32(uint32(p.First))
		w.u32(p.Count)
		w.u32(p.App)
		w.u32(p.Offset)
		w.bool(p.Expand)
		w.strings(p.Argv)
		again := i > 0 && sameAround(programs[i-1], p)
		w.bool(again)
		if !again {
			w.strings(p.Env)
			w.strings(p.Drop)
			w.string(p.Dir)
		}
	}
}

func sameAround(a, b job.Program) bool {
	return slices.Equal(a.Env, b.Env) && slices.Equal(a.Drop, b.Drop) && a.Dir == b.Dir
}

func parsePrograms(r *reader) []job.Program {
	var before *job.Program
	return collect(r, 7, func() job.Program {
		p := job.Program{First: r.rank(), Count: r.u32(), App: r.u32(), Offset: r.u32(), Expand: r.bool(), Argv: r.strings()}
		again := r.bool()
		switch {
		case again && before == nil:
			r.fail(ErrRange)
		case again:
			p.Env, p.Drop, p.Dir = before.Env, before.Drop, before.Dir
		default:
			p.Env, p.Drop, p.Dir = r.strings(), r.strings(), r.string()
			if before != nil && sameAround(*before, p) {
				r.fail(ErrCanonical)
			}
		}
		before = &p
		return p
	})
}

func parseJob(r *reader) *job.Job {
	j := &job.Job{ID: r.string()}
	for i := range j.Secret {
		j.Secret[i] = r.byte()
	}
	j.Size, j.Nodes = r.u32(), r.u32()
	j.Programs = parsePrograms(r)
	j.Umask = r.u32()
	j.Limits = collect(r, 3, func() job.Limit {
		return job.Limit{Resource: r.byte(), Soft: r.uint(math.MaxUint64), Hard: r.uint(math.MaxUint64)}
	})
	parseStreams(r, j)
	j.Launch = parseHow(r)
	j.Layout = parseLayout(r)
	j.Transport = parseTransport(r)
	j.Binding = parseBinding(r)
	if j.MPI = job.MPI(r.byte()); j.MPI >= job.MPIs {
		r.fail(ErrRange)
	}
	j.PMIPort = r.bool()
	j.FirstHost = r.string()
	j.Spawner, j.Depth = r.string(), r.u32()
	j.Preput = collect(r, 2, func() job.Pair { return pairCodec{}.read(r) })
	if r.err == nil && j.Verify() != nil {
		r.fail(ErrRange)
	}
	return j
}

func appendStreams(w *writer, j *job.Job) {
	w.string(j.Output.StdoutFile)
	w.string(j.Output.StderrFile)
	w.string(j.Output.StdinFile)
	w.bool(j.Output.Merge)
	w.bool(j.Output.Copy)
	w.bool(j.Output.Dirs)
	w.bool(j.Output.Unbuffered)
	w.bool(j.Output.Lines)
	w.bool(j.Output.Terminal)
	appendWindow(w, j.Output.Window)
	w.byte(byte(j.Stdin.Mode))
	w.slot(j.Stdin.Rank)
}

func parseStreams(r *reader, j *job.Job) {
	j.Output = job.Output{
		StdoutFile: r.string(), StderrFile: r.string(), StdinFile: r.string(),
		Merge: r.bool(), Copy: r.bool(), Dirs: r.bool(), Unbuffered: r.bool(),
		Lines: r.bool(), Terminal: r.bool(), Window: parseWindow(r),
	}
	j.Stdin = job.Stdin{Mode: job.StdinMode(r.byte()), Rank: r.slot()}
	if j.Stdin.Mode > job.StdinAll {
		r.fail(ErrRange)
	}
}

func appendWindow(w *writer, size job.Window) {
	w.uint(uint64(size.Rows))
	w.uint(uint64(size.Cols))
}

func parseWindow(r *reader) job.Window {
	return job.Window{Rows: uint16(r.uint(math.MaxUint16)), Cols: uint16(r.uint(math.MaxUint16))}
}

func appendHow(w *writer, l job.Launch) {
	w.string(l.Launcher)
	w.strings(l.Exec)
	w.strings(l.Args)
	w.string(l.SSH)
	w.string(l.Tree)
	w.u32(l.Batch)
	w.uint(uint64(l.Timeout))
	w.uint(uint64(l.Grace))
	w.string(l.AgentPath)
	w.bool(l.Verbose)
	w.bool(l.Timed)
	w.bool(l.Late)
	w.bool(l.StartBarrier)
	w.bool(l.KeepGoing)
}

func parseHow(r *reader) job.Launch {
	return job.Launch{
		Launcher: r.string(), Exec: r.strings(), Args: r.strings(), SSH: r.string(), Tree: r.string(), Batch: r.u32(),
		Timeout: time.Duration(r.uint(math.MaxInt64)), Grace: time.Duration(r.uint(math.MaxInt64)),
		AgentPath: r.string(), Verbose: r.bool(), Timed: r.bool(), Late: r.bool(), StartBarrier: r.bool(), KeepGoing: r.bool(),
	}
}

func appendLayout(w *writer, l job.Layout) {
	w.u32(l.Plane())
	w.uint(uint64(l.Len()))
	for s := range l.Shares() {
		w.u32(s.Nodes)
		w.u32(s.Ranks)
	}
	w.uint(uint64(len(l.Order())))
	for _, s := range l.Order() {
		w.node(s.Node)
		w.u32(s.Nodes)
		w.u32(s.Ranks)
	}
}

func parseLayout(r *reader) job.Layout {
	plane := r.u32()
	nodes, ranks := uint64(0), uint64(0)
	n := r.count(2)
	r.charge((n + 1) * job.ShareSize)
	l := job.LayoutOf(n, func(yield func(job.Share) bool) {
		for range n {
			s := job.Share{Nodes: r.u32(), Ranks: r.u32()}
			nodes, ranks = nodes+uint64(s.Nodes), ranks+uint64(s.Nodes)*uint64(s.Ranks)
			if s.Ranks > job.MaxRanksOnNode || nodes > job.MaxNodes || ranks > job.MaxRanks {
				r.fail(ErrRange)
			}
			if r.err != nil || !yield(s) {
				return
			}
		}
	})
	if r.err == nil && l.Len() != n {
		r.fail(ErrCanonical)
	}
	return parseOrder(r, l.Dealt(plane))
}

// parseOrder reads the order of ranks of a layout, if it has one of its own.
func parseOrder(r *reader, l job.Layout) job.Layout {
	order := collect(r, 3, func() job.Stretch { return job.Stretch{Node: r.node(), Nodes: r.u32(), Ranks: r.u32()} })
	r.charge(len(order) * job.StretchSize)
	if len(order) == 0 || r.err != nil {
		return l
	}
	ordered, ok := l.Ordered(order)
	if !ok || l.Plane() != 0 {
		r.fail(ErrCanonical)
	}
	return ordered
}

func appendTransport(w *writer, t job.Transport) {
	w.string(t.Fabric)
	w.string(t.Iface)
	w.bool(t.Eager)
	w.bool(t.Learn)
	w.string(t.Why)
	w.bool(t.Stats)
	w.bool(t.Tell)
	w.byte(t.SL)
	w.uint(uint64(t.PKey))
	w.byte(t.GID)
	w.bool(t.Spin)
}

func parseTransport(r *reader) job.Transport {
	t := job.Transport{
		Fabric: r.string(), Iface: r.string(), Eager: r.bool(), Learn: r.bool(), Why: r.string(), Stats: r.bool(), Tell: r.bool(),
		SL: r.byte(), PKey: uint16(r.uint(math.MaxUint16)), GID: r.byte(), Spin: r.bool(),
	}
	if t.SL > job.MaxSL {
		r.fail(ErrRange)
	}
	return t
}
