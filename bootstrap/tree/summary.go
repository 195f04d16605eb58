package tree

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"ibrun/internal/job"
	"ibrun/internal/plain"
)

// Summary is what --timing shows. Times are in milliseconds.
type Summary struct {
	Nodes     int            `json:"nodes"`
	Up        int            `json:"agents_up"`
	Ranks     int            `json:"ranks"`
	Missing   int            `json:"nodes_not_shown"`
	Launcher  string         `json:"launcher"`
	Tree      string         `json:"tree"`
	LastUp    float64        `json:"last_agent_up_ms"`
	End       float64        `json:"ready_ms"`
	Error     float64        `json:"clock_error_ms"` // the worst of all nodes
	Predicted *Model         `json:"predicted"`
	Measured  *Model         `json:"measured"` // nil: no session over a remote shell was completed
	Phases    []PhaseSummary `json:"phases"`
	Slowest   []SlowNode     `json:"slowest"`
}

// Model is the launch model with its constants.
type Model struct {
	SEQ      float64 `json:"seq_ms"`
	REM      float64 `json:"rem_ms"`
	Source   string  `json:"from"`
	Window   int     `json:"window,omitempty"`
	Sessions int     `json:"sessions,omitempty"`
	LastUp   float64 `json:"last_agent_up_ms"` // for the tree that there was
	Optimum  float64 `json:"optimum_ms"`       // for the best one
}

// PhaseSummary is one phase over all nodes that have been through it.
type PhaseSummary struct {
	Phase   string   `json:"phase"`
	Nodes   int      `json:"nodes"`
	P50     float64  `json:"p50_ms"`
	P99     float64  `json:"p99_ms"`
	Max     float64  `json:"max_ms"`
	Slowest []string `json:"slowest"` // hosts, at most three
}

// SlowNode is a node whose own session took long.
type SlowNode struct {
	Host    string  `json:"host"`
	Parent  string  `json:"parent"`
	Session float64 `json:"session_ms"` // from its start to Launch
	Phase   string  `json:"longest_phase"`
	CPU     float64 `json:"launcher_cpu_ms,omitempty"`
}

// named bounds the names in one line.
const named = 3

// Summarize looks at a launch.
func (l *Launch) Summarize() Summary {
	last, agents := l.LastUp()
	s := Summary{
		Nodes: l.Agents, Up: agents, Ranks: l.Ranks, Missing: l.Missing, Launcher: l.Launcher, Tree: l.Shape.Name(),
		LastUp: Millis(last), End: Millis(l.End()),
		Predicted: &Model{SEQ: Millis(l.Shape.Cost.SEQ), REM: Millis(l.Shape.Cost.REM), Source: l.Source,
			LastUp: Millis(l.Shape.Makespan(l.Agents + 1)), Optimum: Millis(l.Shape.Cost.Optimum(l.Agents + 1))},
	}
	if fit, ok := l.Fit(); ok {
		s.Measured = &Model{
			SEQ: Millis(fit.SEQ), REM: Millis(fit.REM), Source: "this launch", Window: fit.InFlight,
			Sessions: fit.Sessions, LastUp: Millis(quantile(l.Replay(fit.Cost), 1)),
			Optimum: Millis(fit.Optimum(l.Agents + 1)),
		}
	}
	var took [Phases][]phaseOf
	for i := range l.Nodes {
		n := &l.Nodes[i]
		s.Error = max(s.Error, Millis(n.Error))
		for _, span := range n.Spans() {
			took[span.Phase] = append(took[span.Phase], phaseOf{n.Host, span.To - span.From})
		}
	}
	for p, list := range took {
		if len(list) > 0 {
			s.Phases = append(s.Phases, summarizePhase(Phase(p), list))
		}
	}
	s.Slowest = l.slowest()
	return s
}

type phaseOf struct {
	host string
	took time.Duration
}

func summarizePhase(p Phase, list []phaseOf) PhaseSummary {
	slices.SortStableFunc(list, func(a, b phaseOf) int { return int(b.took - a.took) })
	s := PhaseSummary{Phase: p.String(), Nodes: len(list), Max: Millis(list[0].took)}
	var times []time.Duration
	for i, of := range list {
		times = append(times, of.took)
		if i < named {
			s.Slowest = append(s.Slowest, of.host)
		}
	}
	s.P50, s.P99 = Millis(quantile(times, 0.5)), Millis(quantile(times, 0.99))
	return s
}

// session is how long a node's session took to come up, or job.Never.
func (n *Node) session() time.Duration {
	if n.At[job.SessionStarted] == job.Never || n.At[job.LaunchSent] == job.Never {
		return job.Never
	}
	return n.At[job.LaunchSent] - n.At[job.SessionStarted]
}

// slowest are the nodes whose sessions took longest.
func (l *Launch) slowest() (slow []SlowNode) {
	var nodes []*Node
	host := map[job.NodeIndex]string{0: l.Root}
	for i := range l.Nodes {
		n := &l.Nodes[i]
		host[n.Node+1] = n.Host
		if n.session() != job.Never {
			nodes = append(nodes, n)
		}
	}
	slices.SortStableFunc(nodes, func(a, b *Node) int { return int(b.session() - a.session()) })
	for _, n := range nodes[:min(named, len(nodes))] {
		var longest Span
		for _, span := range n.Spans() {
			if span.Phase < Spawn && span.To-span.From >= longest.To-longest.From {
				longest = span
			}
		}
		slow = append(slow, SlowNode{Host: n.Host, Parent: host[n.Parent], Session: Millis(n.session()),
			Phase: longest.Phase.String(), CPU: Millis(n.CPU)})
	}
	return slow
}

// JSON writes the summary as one line.
func (s Summary) JSON(w io.Writer) error { return plain.WriteJSON(w, s) }

// Text prints the summary for the user, a few lines.
func (s Summary) Text(line func(format string, args ...any)) {
	line("timing: %d of %d agents up after %s, all settled after %s (%d ranks, tree %s, over %s; clocks agree to %s)",
		s.Up, s.Nodes, MillisText(s.LastUp), MillisText(s.End), s.Ranks, s.Tree, s.Launcher, MillisText(s.Error))
	p := s.Predicted
	line("timing: predicted %s from SEQ %s, REM %s (%s); the best tree %s", MillisText(p.LastUp), MillisText(p.SEQ),
		MillisText(p.REM), p.Source, MillisText(p.Optimum))
	if m := s.Measured; m != nil {
		line("timing: measured SEQ %s, REM %s, up to %d at a time, by %d sessions; with these the model says %s for "+
			"this tree, %s for the best", MillisText(m.SEQ), MillisText(m.REM), m.Window, m.Sessions,
			MillisText(m.LastUp), MillisText(m.Optimum))
	}
	line("timing: %-12s %9s %9s %9s  %s", "phase", "p50", "p99", "max", "slowest")
	for _, p := range s.Phases {
		line("timing: %-12s %9s %9s %9s  %s", p.Phase, MillisText(p.P50), MillisText(p.P99), MillisText(p.Max),
			strings.Join(p.Slowest, ", "))
	}
	for _, n := range s.Slowest {
		line("timing: slowest session: %s from %s, %s, longest in %s", n.Host, n.Parent, MillisText(n.Session), n.Phase)
	}
	if s.Missing > 0 {
		line("timing: %d nodes are not shown: too many for one frame", s.Missing)
	}
}

// Millis is a time in milliseconds.
func Millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// MillisText is a number of milliseconds for the user.
func MillisText(v float64) string {
	switch {
	case v >= 10000:
		return fmt.Sprintf("%.1f s", v/1000)
	case v >= 100:
		return fmt.Sprintf("%.0f ms", v)
	case v >= 10:
		return fmt.Sprintf("%.1f ms", v)
	}
	return fmt.Sprintf("%.2f ms", v)
}

// CostText is how costs are shown to the user.
func CostText(c Cost) string {
	return fmt.Sprintf("SEQ %s, REM %s", MillisText(Millis(c.SEQ)), MillisText(Millis(c.REM)))
}
