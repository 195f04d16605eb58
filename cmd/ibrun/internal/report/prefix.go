package report

import (
	"strconv"
	"time"

	"ibrun/cmd/ibrun/internal/plan"
	"ibrun/internal/job"
)

// LinePrefix fills in hydra's pattern for the beginning of a line of a rank's: %r rank, %g the
// number of spawners above the job, %p node, %h host, %t time in seconds.
func LinePrefix(
	p *plan.Plan, pattern string, rank job.Rank, host func(node job.NodeIndex, planned string) string,
) string {
	node := p.Job.Layout.NodeOf(p.Job.Layout.Slot(rank))
	number := func(n uint64, width int) (string, bool) { return job.Padded(n, width), true }
	text, _ := job.Expand(pattern, func(letter byte, width int) (string, bool) { // setPrefix has checked the letters
		switch letter {
		case 'r':
			return number(uint64(rank), width)
		case 'g':
			return number(uint64(p.Job.Depth), width)
		case 'p':
			return number(uint64(node), width)
		case 't':
			return strconv.FormatInt(time.Now().Unix(), 10), true
		}
		return host(node, p.Nodes.At(int(node)).Host), true
	})
	return text
}
