package wire

import (
	"math"
	"time"

	"ibrun/job"
)

func (m Launch) append(w *writer) {
	w.u32(m.First)
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
	m := Launch{First: r.u32(), Level: r.u32(), Credit: r.u32(), Nodes: parseNodes(r)}
	for range r.count(partLeast) {
		m.Share = append(m.Share, parsePart(r))
	}
	m.Job = parseJob(r)
	return m
}

// partLeast is the least size of a part, in bytes.
const partLeast = 12

func appendPart(w *writer, p job.Part) {
	w.u32(p.First)
	appendNodes(w, p.Nodes)
}

func parsePart(r *reader) job.Part { return job.Part{First: r.u32(), Nodes: parseNodes(r)} }

func appendNodes(w *writer, n job.Nodes) {
	w.u32(n.Base())
	runs := n.Runs()
	w.uint(uint64(len(runs)))
	for _, r := range runs {
		w.string(r.Prefix)
		w.string(r.Suffix)
		w.byte(r.Width)
		w.uint(r.Lo)
		w.u32(r.Count)
		w.string(r.User)
		w.string(r.HCA)
		w.u32(r.Slots)
		w.u32(r.Ranks)
	}
}

func parseNodes(r *reader) job.Nodes {
	base := r.u32()
	var runs []job.Run
	nodes, ranks := uint64(0), uint64(base)
	for range r.count(9) {
		run := job.Run{
			Prefix: r.string(), Suffix: r.string(), Width: r.byte(), Lo: r.uint(math.MaxInt64), Count: r.u32(),
			User: r.string(), HCA: r.string(), Slots: r.u32(), Ranks: r.u32(),
		}
		nodes += uint64(run.Count)
		ranks += uint64(run.Count) * uint64(run.Ranks)
		if run.Width > 20 || nodes > job.MaxNodes || ranks > job.MaxRanks {
			r.fail(ErrRange)
			return job.Nodes{}
		}
		runs = append(runs, run)
	}
	n := job.NewNodes(base, runs)
	if r.err == nil && len(n.Runs()) != len(runs) {
		r.fail(ErrCanonical) // runs that should have been one, or an empty one
	}
	if n.Len() == 0 {
		r.fail(ErrRange)
	}
	return n
}

func appendJob(w *writer, j *job.Job) {
	w.string(j.ID)
	*w = append(*w, j.Secret[:]...)
	w.u32(j.Size)
	w.u32(j.Nodes)
	w.uint(uint64(len(j.Programs)))
	for _, p := range j.Programs {
		w.u32(p.First)
		w.u32(p.Count)
		w.strings(p.Argv)
		w.strings(p.Env)
		w.strings(p.Drop)
		w.string(p.Dir)
	}
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
	appendPairs(w, j.Preput)
}

func parseJob(r *reader) *job.Job {
	j := &job.Job{ID: r.string()}
	for i := range j.Secret {
		j.Secret[i] = r.byte()
	}
	j.Size, j.Nodes = r.u32(), r.u32()
	for range r.count(6) {
		j.Programs = append(j.Programs, job.Program{
			First: r.u32(), Count: r.u32(), Argv: r.strings(), Env: r.strings(), Drop: r.strings(), Dir: r.string(),
		})
	}
	j.Umask = r.u32()
	for range r.count(3) {
		j.Limits = append(j.Limits, job.Limit{Resource: r.byte(), Soft: r.uint(math.MaxUint64), Hard: r.uint(math.MaxUint64)})
	}
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
	j.Spawner, j.Depth, j.Preput = r.string(), r.u32(), parsePairs(r)
	return j
}

func appendStreams(w *writer, j *job.Job) {
	w.string(j.Output.StdoutFile)
	w.string(j.Output.StderrFile)
	w.string(j.Output.StdinFile)
	w.bool(j.Output.Merge)
	w.bool(j.Output.Unbuffered)
	w.byte(byte(j.Stdin.Mode))
	w.u32(j.Stdin.Rank)
}

func parseStreams(r *reader, j *job.Job) {
	j.Output = job.Output{StdoutFile: r.string(), StderrFile: r.string(), StdinFile: r.string(), Merge: r.bool(), Unbuffered: r.bool()}
	j.Stdin = job.Stdin{Mode: job.StdinMode(r.byte()), Rank: r.u32()}
	if j.Stdin.Mode > job.StdinAll {
		r.fail(ErrRange)
	}
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
	w.bool(l.Held)
	w.bool(l.KeepGoing)
}

func parseHow(r *reader) job.Launch {
	return job.Launch{
		Launcher: r.string(), Exec: r.strings(), Args: r.strings(), SSH: r.string(), Tree: r.string(), Batch: r.u32(),
		Timeout: time.Duration(r.uint(math.MaxInt64)), Grace: time.Duration(r.uint(math.MaxInt64)),
		AgentPath: r.string(), Verbose: r.bool(), Timed: r.bool(), Late: r.bool(), Held: r.bool(), KeepGoing: r.bool(),
	}
}

func appendLayout(w *writer, l job.Layout) {
	w.u32(l.Plane())
	w.uint(uint64(len(l.Shares())))
	for _, s := range l.Shares() {
		w.u32(s.Nodes)
		w.u32(s.Ranks)
	}
}

func parseLayout(r *reader) job.Layout {
	plane := r.u32()
	var shares []job.Share
	nodes, ranks := uint64(0), uint64(0)
	for range r.count(2) {
		s := job.Share{Nodes: r.u32(), Ranks: r.u32()}
		nodes, ranks = nodes+uint64(s.Nodes), ranks+uint64(s.Nodes)*uint64(s.Ranks)
		if nodes > job.MaxNodes || ranks > job.MaxRanks {
			r.fail(ErrRange)
			return job.Layout{}
		}
		shares = append(shares, s)
	}
	l := job.NewLayout(shares).Dealt(plane)
	if len(l.Shares()) != len(shares) {
		r.fail(ErrCanonical)
	}
	return l
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
