// Package report tells the user on standard error what becomes of a job: its start, where its ranks
// run, its failures and its end. It decides nothing about the job, and writes nothing to standard
// output.
//
// The package also writes the times of a launch: as an HTML page with a picture and tables, and as a trace for Chrome's
// trace viewer.
package report

import (
	"fmt"
	"io"
	"maps"
	"sort"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ibrun/bootstrap/control"
	"ibrun/bootstrap/core"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
	"ibrun/internal/plain"
)

// Reporter says on standard error what happens to a job. Everything begins
// with "ibrun:", and nothing of it goes to standard output.
type Reporter struct {
	To      io.Writer
	Quiet   bool
	Verbose int
	Began   time.Time
	Prefix  string // goes before each line; empty: the job that the user has started
	Layout  job.Layout
	JSON    bool     // --json: places as data
	Limited bool     // the job ends at its time since its allocation does
	noted   []string // what nodes have said

	Progress *Progress                                // nil: there is no terminal
	Views    *Views                                   // nil: of no job that the user has started
	OnStart  func()                                   // called when the ranks have started; nil: nobody wants to know
	taken    atomic.Pointer[map[job.NodeIndex]string] // hosts of the nodes whose place a spare has taken
}

// Event is called while the job goes on.
func (r *Reporter) Event(what any) {
	switch e := what.(type) {
	case wire.Waiting:
		if !r.Quiet {
			r.slowSessions(e)
		}
	case wire.Fault:
		r.Line("%s", r.FaultLine(e))
	case core.Restarting:
		who := "it starts again"
		switch {
		case e.All:
			who = "all ranks start again"
		case e.Fault.What == wire.FaultLost:
			who = "its ranks start again"
		}
		r.Line("%s; %s (restart %d)", r.FaultLine(e.Fault), who, e.Number)
	case wire.Placed:
		r.placed(e)
	case rankwire.Notice:
		r.Notice(e)
	case core.Missing:
		r.missing(e)
	case core.Progress:
		if r.Progress != nil {
			r.Progress.set(e.Nodes)
		}
	case core.LaunchDone:
		r.LaunchOver()
		taken := maps.Clone(e.Spares)
		r.taken.Store(&taken)
		if r.OnStart != nil {
			r.OnStart()
		}
		r.Views.show(e.Times, e.Missing, e.Spares)
		if r.Verbose > 0 {
			r.Line("all %d agents are up after %v", e.Agents, time.Since(r.Began).Round(time.Millisecond))
		}
	}
}

// LaunchOver is called when the launch is over, however it ended.
func (r *Reporter) LaunchOver() {
	if r.Progress != nil {
		r.Progress.end()
	}
}

func (r *Reporter) Line(format string, args ...any) {
	fmt.Fprintf(r.To, "ibrun: %s%s\n", r.Prefix, plain.Text(fmt.Sprintf(format, args...)))
}

func (r *Reporter) Warn(text string) { r.Line("%s", text) }

func (r *Reporter) slowSessions(w wire.Waiting) {
	var items []string
	for _, l := range w.Items {
		items = append(items, fmt.Sprintf("%s (%s, %.0f s)", l.Host, l.Phase, float64(l.ForMs)/1000))
	}
	r.Line("waiting for %s", strings.Join(items, ", "))
}

// FaultLine is one failure in one line: who, what, why.
func (r *Reporter) FaultLine(f wire.Fault) string {
	rank := r.Layout.Rank
	text := ""
	switch f.What {
	case wire.FaultAbort:
		text = fmt.Sprintf("rank %d on %s aborted the job with code %d", rank(f.Rank), f.Host, f.Status.Code)
	case wire.FaultRollback:
		text = fmt.Sprintf("rank %d on %s asked for a rollback", rank(f.Rank), f.Host)
	case wire.FaultRank:
		text = fmt.Sprintf("rank %d on %s %s", rank(f.Rank), f.Host, Ending(f.Status))
		if f.Status.OK() {
			text += ", and without MPI_Finalize"
		} else if f.Awaited {
			text += " before MPI_Finalize"
		}
		if f.Awaited {
			text += ": the job ends despite --keep-going, as ranks of MPI wait for each other"
		}
	case wire.FaultFork:
		who := fmt.Sprintf("rank %d", rank(f.Rank))
		if f.Count > 1 {
			who = fmt.Sprintf("rank %d and %d others", rank(f.Rank), f.Count-1)
		}
		return fmt.Sprintf("%s on %s could not be started: %s", who, f.Host, f.Cause)
	case wire.FaultLaunch:
		return fmt.Sprintf("%s could not be reached from %s (%s): %s%s", f.Host, f.Parent, f.Phase, f.Cause, below(f))
	case wire.FaultFallback:
		return fmt.Sprintf("%s could not be reached from %s (%s): %s; it could from elsewhere, as others may: this "+
			"is said once, --doctor names all", f.Host, f.Parent, f.Phase, f.Cause)
	case wire.FaultTold:
		return fmt.Sprintf("the job was ended: the agent on %s got %s", f.Host, unix.SignalName(syscall.Signal(f.Status.Code)))
	default:
		return fmt.Sprintf("the agent on %s was lost (seen by %s): %s%s", f.Host, f.Parent, f.Cause, below(f))
	}
	if f.Cause != "" {
		text += ": " + f.Cause
	}
	return text
}

// below says how many more nodes a failed agent would have started.
func below(f wire.Fault) string {
	if f.Nodes < 2 {
		return ""
	}
	return fmt.Sprintf(" (and with it %s below it in the tree)", plain.Plural(int(f.Nodes-1), "node"))
}

// Ending says how a rank ended, in words.
func Ending(s job.Status) string {
	switch s.Kind {
	case job.Exited:
		return fmt.Sprintf("exited with code %d", s.Code)
	case job.Signaled:
		text := fmt.Sprintf("was killed by signal %d (%s)", s.Code,
			strings.TrimPrefix(unix.SignalName(syscall.Signal(s.Code)), "SIG"))
		if s.Core {
			text += ", core dumped"
		}
		return text
	case job.NotRun:
		return "was not started"
	}
	return "was lost with its node"
}

// Outcome is called once, at the end.
func (r *Reporter) Outcome(o core.Outcome, timeout time.Duration, allCodes bool) {
	switch o.Cause {
	case core.CauseFault:
		if o.Fault.What == wire.FaultLaunch {
			r.launchTable(o)
		} else if more := len(o.Faults) - 1; more > 0 && r.Verbose > 0 {
			for _, f := range o.Faults[1:] {
				r.Line("also: %s", r.FaultLine(f))
			}
		}
		if o.Fault.What == wire.FaultFork {
			r.same(o)
		}
		if tail := o.Fault.Tail; tail != "" && o.Fault.What == wire.FaultLost {
			r.tail(tail)
		}
	case core.CauseSignal:
		if !r.Quiet {
			r.Line("the job was ended: ibrun got %s", unix.SignalName(syscall.Signal(o.Signal)))
		}
	case core.CauseSink:
		if o.Code == 125 {
			r.Line("the job was ended: its output could not be written: %s", o.Text)
		}
	case core.CauseOffspring:
		r.Line("the job was ended: a job that it had spawned failed with code %d", o.Code)
	}
	if o.Cause == core.CauseTimeout || o.EndedBy == core.CauseTimeout {
		if r.Limited {
			r.Line("the job was ended, since its allocation ends soon; hint: ask the manager for more time")
		} else {
			r.Line("the job was ended: its time of %v (--timeout) was up", timeout)
		}
	}
	if o.Cause == core.CauseWait || o.EndedBy == core.CauseWait {
		r.Line("the job was ended: ranks were still running when the time of --wait was up")
	}
	if o.Truncated > 0 && o.Cause != core.CauseSink {
		r.Line("%d bytes of output were dropped, because the job ended before they could be written", o.Truncated)
	}
	if allCodes {
		r.codes(o.Runs)
	}
}

// same says how many more nodes had the problem that was reported.
func (r *Reporter) same(o core.Outcome) {
	more := -1
	for _, f := range o.Faults {
		if f.What == wire.FaultFork && f.Cause == o.Fault.Cause {
			more++
		}
	}
	if more > 0 {
		r.Line("the same on %s more", plain.Plural(more, "node"))
	}
}

// launchTable is a table that a person can act on: a line for each session
// that failed, and what it printed.
func (r *Reporter) launchTable(o core.Outcome) {
	var failed []wire.Fault
	nodes := 0
	for _, f := range o.Faults {
		if f.What == wire.FaultLaunch {
			failed = append(failed, f)
			nodes += int(f.Nodes)
		}
	}
	sort.Slice(failed, func(i, j int) bool { return failed[i].Node < failed[j].Node })
	r.Line("%s: %s could not be reached", ran(o.Runs), plain.Plural(nodes, "node"))
	rows := [][4]string{{"host", "parent", "phase", "cause"}}
	for _, f := range failed[:min(len(failed), maxRows)] {
		rows = append(rows, [4]string{f.Host, f.Parent, f.Phase, f.Cause + below(f)})
	}
	var width [4]int
	for _, row := range rows {
		for i, cell := range row {
			width[i] = max(width[i], len(cell))
		}
	}
	for i, row := range rows {
		r.Line("  %-*s  %-*s  %-*s  %s", width[0], row[0], width[1], row[1], width[2], row[2], row[3])
		if i > 0 && failed[i-1].Tail != "" {
			r.tail(failed[i-1].Tail)
		}
	}
	if more := len(failed) - maxRows; more > 0 {
		r.Line("  and %d more", more)
	}
}

// ran says of a job whose launch has failed what of it had run: ranks do not wait for
// those of other nodes.
func ran(runs []job.StatusRun) string {
	all, started, known := uint32(0), uint32(0), true
	for _, run := range runs {
		all += run.Count
		if run.Status.Kind != job.NotRun {
			started += run.Count
		}
		known = known && run.Status.Kind != job.Lost
	}
	switch {
	case started == 0:
		return "the job was not started"
	case !known: // their agent cannot be asked
		return fmt.Sprintf("the job was ended, of which up to %d of %s had been started", started,
			plain.Plural(int(all), "rank"))
	}
	return fmt.Sprintf("the job was ended, of which %d of %s had been started", started, plain.Plural(int(all), "rank"))
}

// maxRows bounds the table: a job of a thousand nodes that all fail needs one
// screen, not a thousand lines.
const maxRows = 20

// tail shows the last lines of a session, as that session printed them.
func (r *Reporter) tail(text string) {
	lines := strings.Split(strings.TrimRight(text, "\r\n"), "\n")
	for _, l := range lines[max(0, len(lines)-5):] {
		r.Line("      | %s", strings.TrimRight(l, "\r"))
	}
}

func (r *Reporter) codes(runs []job.StatusRun) {
	for _, run := range byRank(runs, r.Layout) {
		who := "rank"
		if run.Count > 1 {
			who = "ranks"
		}
		r.Line("%s %s %s", who, rankSpan(run.First, run.Count), Ending(run.Status))
	}
}

// rankRun gives one status to the ranks [First, First+Count).
type rankRun struct {
	First  job.Rank
	Count  uint32
	Status job.Status
}

// byRank turns the statuses of slots into those of ranks.
func byRank(runs []job.StatusRun, l job.Layout) (out []rankRun) {
	if l.Plain() {
		for _, run := range runs {
			out = append(out, rankRun{l.Rank(run.First), run.Count, run.Status})
		}
		return out
	}
	became := make([]job.Status, l.Ranks())
	for _, run := range runs {
		for slot := run.First; slot < run.End(); slot++ {
			became[l.Rank(slot)] = run.Status
		}
	}
	for rank, s := range became {
		if last := len(out) - 1; last >= 0 && out[last].Status == s {
			out[last].Count++
			continue
		}
		out = append(out, rankRun{job.Rank(rank), 1, s})
	}
	return out
}

// HostOf is the host that serves a node: the planned one, or the spare that has taken its place.
// It may be called from any goroutine.
func (r *Reporter) HostOf(node job.NodeIndex, planned string) string {
	if taken := r.taken.Load(); taken != nil {
		if host, ok := (*taken)[node]; ok {
			return host
		}
	}
	return planned
}

// missing prints which ranks are blocked in collectives, and for which ranks they wait. If no rank is blocked and a
// signal ends the job, missing prints a summary of all ranks instead. It must be called before the job is ended.
func (r *Reporter) missing(e core.Missing) {
	if r.Quiet {
		return
	}
	s := control.StandingOf(r.Layout, e.Standings)
	lines := s.Collectives()
	if len(lines) == 0 && e.Signal != 0 {
		lines = s.Summary()
	}
	for _, line := range lines {
		r.Line("%s", line)
	}
}
