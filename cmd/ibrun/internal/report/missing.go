package report

import (
	"ibrun/bootstrap/control"
	"ibrun/bootstrap/core"
)

// missing says before a job is ended who waits for whom. A job whose time is up may be one in which
// nobody waits: that is no news.
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
