package main

import (
	"os"
	"strconv"
	"time"

	"ibrun/bootstrap/agent"
	"ibrun/internal/proc"
	"ibrun/job"
)

// style is how output is shown on our standard output and error.
func (p *plan) style(label, timestamp bool, prefix string, say *reporter) agent.Style {
	s := agent.Style{Label: label, Timestamp: timestamp, Escape: [3]bool{1: proc.IsTerminal(os.Stdout), 2: proc.IsTerminal(os.Stderr)}}
	if p.job.Output.Terminal {
		s.Direct, s.Terminal = proc.InTurn(os.Stdout, proc.ConsoleWriter(os.Stdout)), p.layout.Rank(p.job.Stdin.Rank)
	}
	if prefix != "" {
		s.Prefix = func(rank job.Rank) string { return p.prefix(prefix, rank, say.hostOf) }
	}
	return s
}

// prefix fills in hydra's pattern for the beginning of a line of a rank's: %r rank, %g the number
// of spawners above the job, %p node, %h host, %t time in seconds.
func (p *plan) prefix(pattern string, rank job.Rank, host func(node job.NodeIndex, planned string) string) string {
	node := p.layout.NodeOf(p.layout.Slot(rank))
	number := func(n uint64, width int) (string, bool) { return job.Padded(n, width), true }
	text, _ := job.Expand(pattern, func(letter byte, width int) (string, bool) { // setPrefix has checked the letters
		switch letter {
		case 'r':
			return number(uint64(rank), width)
		case 'g':
			return number(uint64(p.job.Depth), width)
		case 'p':
			return number(uint64(node), width)
		case 't':
			return strconv.FormatInt(time.Now().Unix(), 10), true
		}
		return host(node, p.nodes.At(int(node)).Host), true
	})
	return text
}

// hostOf is the host that serves a node: the planned one, or the spare that has taken its place.
// It may be called from any goroutine.
func (r *reporter) hostOf(node job.NodeIndex, planned string) string {
	if taken := r.taken.Load(); taken != nil {
		if host, ok := (*taken)[node]; ok {
			return host
		}
	}
	return planned
}
