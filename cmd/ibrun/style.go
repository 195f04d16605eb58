package main

import (
	"os"

	"ibrun/bootstrap/agent"
	"ibrun/cmd/ibrun/internal/plan"
	"ibrun/cmd/ibrun/internal/report"
	"ibrun/internal/job"
	"ibrun/internal/proc"
)

// style is how output is shown on our standard output and error.
func style(p *plan.Plan, label, timestamp bool, prefix string, say *report.Reporter) agent.Style {
	s := agent.Style{Label: label, Timestamp: timestamp, Escape: [3]bool{1: proc.IsTerminal(os.Stdout),
		2: proc.IsTerminal(os.Stderr)}}
	if p.Job.Output.Terminal {
		s.Direct = proc.InTurn(os.Stdout, proc.ConsoleWriter(os.Stdout))
		s.Terminal = p.Job.Layout.Rank(p.Job.Stdin.Rank)
	}
	if prefix != "" {
		s.Prefix = func(rank job.Rank) string { return report.LinePrefix(p, prefix, rank, say.HostOf) }
	}
	return s
}
