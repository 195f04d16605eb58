package report

import (
	"fmt"
	"io"
	"strings"
	"time"

	"ibrun/bootstrap/tree/costs"
	"ibrun/cmd/ibrun/internal/cli"
	"ibrun/cmd/ibrun/internal/plan"
	"ibrun/internal/job"
	"ibrun/internal/plain"
)

// shownRuns bounds the table of a plan.
const shownRuns = 64

// Describe prints a plan: who runs what, over which tree, and how long the
// model says that the launch takes.
func Describe(w io.Writer, p *plan.Plan) {
	n := p.Nodes
	name := ""
	if p.Name != "" {
		name = p.Name + ": "
	}
	line := func(format string, args ...any) { fmt.Fprintln(w, plain.Text(fmt.Sprintf(format, args...))) }
	line("job      %s%s on %s", name, plain.Plural(int(p.Job.Size), "rank"), plain.Plural(n.Len(), "node"))
	for i, prog := range p.Job.Programs {
		line("program  %d: ranks %s: %s", i, rankSpan(prog.First, prog.Count), cli.QuoteAll(prog.Argv))
		line("         in %s, %s forwarded", prog.Dir, plain.Plural(len(prog.Env), "variable"))
	}
	at := 0
	for k, r := range n.Runs() {
		if k == shownRuns {
			line("         and %s more", plain.Plural(n.Len()-at, "node"))
			break
		}
		line("nodes    %-28s %d each, %s", runName(r), r.Ranks, ranksOf(p.Job.Layout, n.At(at), r.Count*r.Ranks))
		at += int(r.Count)
	}
	for _, s := range p.Policy.Spares.Runs() {
		line("spares   %s", runName(s))
	}
	if p.Policy.MinNodes > 0 {
		line("least    %s: ranks start when it is known which nodes there are", plain.Plural(p.Policy.MinNodes, "node"))
	}
	children := p.Shape.Split(0, n.Len()+1)
	how := p.Job.Launch.Launcher
	if len(p.Job.Launch.Exec) > 0 {
		how = strings.Join(p.Job.Launch.Exec, " ")
	}
	if p.Here >= 0 && n.Len() == 1 {
		how = "no session"
	}
	line("tree     %s: %s at the root, %s deep, over %s", p.Shape.Name(), plain.Plural(len(children), "session"),
		plain.Plural(depth(p), "level"), how)
	if p.Here >= 0 {
		line("         %s is this machine and needs no session", n.At(p.Here).Host)
	}
	line("predict  all agents up after %v (SEQ %v, REM %v, %s)", p.Shape.Makespan(n.Len()+1).Round(time.Millisecond),
		p.Shape.Cost.SEQ.Round(costs.Precision), p.Shape.Cost.REM.Round(costs.Precision), p.Source)
}

// DescribeAllocation prints the nodes that ranks could be placed on, with their slots.
func DescribeAllocation(w io.Writer, p *plan.Plan) {
	fmt.Fprintf(w, "alloc    %s, %s\n", plain.Plural(p.Alloc.Len(), "node"), plain.Plural(int(p.Alloc.Slots()), "slot"))
	for k, r := range p.Alloc.Runs() {
		if k == shownRuns {
			fmt.Fprintf(w, "         and more\n")
			break
		}
		fmt.Fprintf(w, "         %-28s %d each\n", runName(r), max(r.Slots, 1))
	}
	for _, s := range p.Policy.Spares.Runs() {
		fmt.Fprintf(w, "spares   %s\n", runName(s))
	}
}

// shownRanks bounds the ranks of a node that are listed one by one.
const shownRanks = 8

// ranksOf names the ranks of some nodes, of which first is the first.
func ranksOf(l job.Layout, first job.Node, ranks uint32) string {
	if l.Plain() {
		return "ranks " + rankSpan(job.Rank(first.First), ranks)
	}
	var some []string
	for i := range first.Ranks {
		if i == shownRanks {
			some = append(some, "...")
			break
		}
		some = append(some, fmt.Sprint(l.Rank(first.First+job.Slot(i))))
	}
	if l.Plane() == 0 {
		return fmt.Sprintf("%s has ranks %s", first.Host, strings.Join(some, ","))
	}
	return fmt.Sprintf("dealt %s at a time: %s has ranks %s", plain.Plural(int(l.Plane()), "rank"), first.Host,
		strings.Join(some, ","))
}

// depth is the number of sessions from the root to the farthest agent.
func depth(p *plan.Plan) int {
	levels, sizes := 0, map[int]bool{p.Nodes.Len() + 1: true}
	for {
		next := map[int]bool{}
		for n := range sizes {
			for _, k := range p.Shape.Split(levels, n) {
				next[k] = true
			}
		}
		if len(next) == 0 {
			return levels
		}
		levels, sizes = levels+1, next
	}
}

func runName(r job.Run) string {
	name := r.String()
	if r.User != "" {
		name = r.User + "@" + name
	}
	return name
}

func rankSpan(first job.Rank, n uint32) string {
	if n == 1 {
		return fmt.Sprint(first)
	}
	return fmt.Sprintf("%d-%d", first, first+job.Rank(n)-1)
}
