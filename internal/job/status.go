package job

import (
	"cmp"
	"fmt"
	"slices"
)

// StatusKind says how a rank ended.
type StatusKind uint8

const (
	Exited   StatusKind = iota // Code is the exit code, 0 to 255
	Signaled                   // Code is the signal's number
	NotRun                     // never started: Code is 126 or 127, or 0 when the job ended first
	Lost                       // its node or agent was lost; what became of it is not known
)

// Status is the end of one rank.
type Status struct {
	Kind StatusKind
	Code uint8
	Core bool // a core file was written
}

// OK reports whether the rank ended by itself with exit code 0.
func (s Status) OK() bool { return s == Status{} }

// ExitCode is the code by which a shell knows this end: the exit code itself,
// 128 plus the signal, 126 or 127 for a program that could not be started,
// 125 for a rank that was lost.
func (s Status) ExitCode() int {
	switch s.Kind {
	case Exited:
		return int(s.Code)
	case Signaled:
		return 128 + int(s.Code)
	case NotRun:
		if s.Code != 0 {
			return int(s.Code)
		}
	}
	return 125
}

// AbortCode is the exit code of a job that a rank ends with a code of its own: the low byte, as
// exit(3) takes it, but never that of success, which 256 would become.
func AbortCode(code int) uint8 { return max(uint8(code), 1) }

// StatusRun gives one Status to the slots [First, First+Count).
type StatusRun struct {
	First  Slot
	Count  uint32
	Status Status
}

// End is the slot after the last one.
func (r StatusRun) End() Slot { return r.First + Slot(r.Count) }

func (r StatusRun) String() string {
	return fmt.Sprintf("[%d,+%d) %v", r.First, r.Count, r.Status)
}

// MergeRuns sorts runs by slot and joins neighbours with the same Status.
// The result shares no memory with the argument.
func MergeRuns(runs []StatusRun) []StatusRun {
	sorted := slices.Clone(runs)
	slices.SortFunc(sorted, func(a, b StatusRun) int { return cmp.Compare(a.First, b.First) })
	var out []StatusRun
	for _, r := range sorted {
		if last := len(out) - 1; last >= 0 && out[last].Status == r.Status && out[last].End() == r.First {
			out[last].Count += r.Count
			continue
		}
		out = append(out, r)
	}
	return out
}
