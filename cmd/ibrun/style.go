package main

import (
	"os"
	"strconv"
	"time"

	"ibrun/bootstrap/agent"
	"ibrun/internal/report"
	"ibrun/job"
)

// style is how output is shown on our standard output and error.
func (p *plan) style(label, timestamp bool, prefix string, say *report.Reporter) agent.Style {
	s := agent.Style{Label: label, Timestamp: timestamp, Escape: [3]bool{1: terminal(1), 2: terminal(2)}}
	if p.job.Output.Terminal {
		s.Direct, s.Terminal = os.Stdout, p.layout.Rank(p.job.Stdin.Rank)
	}
	if prefix != "" {
		s.Prefix = func(rank uint32) string { return p.prefix(prefix, rank, say.HostOf) }
	}
	return s
}

// prefix fills in hydra's pattern for the beginning of a line of a rank's: %r rank, %g the number
// of spawners above the job, %p node, %h host, %t time in seconds.
func (p *plan) prefix(pattern string, rank uint32, host func(node uint32, planned string) string) string {
	node := p.layout.NodeOf(p.layout.Seat(rank))
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
