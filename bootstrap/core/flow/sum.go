package flow

import (
	"sort"

	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// codeLost is the exit code of what nobody knows.
const codeLost = 125

// sum is what is known of the ends so far.
type sum struct {
	ends   rankwire.DaemonEnds // but for Failed
	failed []rankwire.FailedDaemon
}

// add takes the end of one daemon.
func (s *sum) add(number uint32, host string, status job.Status, cause string) {
	if status.OK() {
		return
	}
	s.ends.Code = max(s.ends.Code, uint8(min(status.ExitCode(), 255)))
	if status.ExitCode() > 0 {
		s.failed = append(s.failed, rankwire.FailedDaemon{Number: number, Host: host, Status: status, Cause: cause})
	}
	s.trim()
}

// lose counts nodes of which nothing is known.
func (s *sum) lose(nodes uint32) {
	if s.ends.Lost += nodes; nodes > 0 {
		s.ends.Code = max(s.ends.Code, codeLost)
	}
}

// merge takes the ends of other daemons.
func (s *sum) merge(e rankwire.DaemonEnds) {
	s.ends.Daemons, s.ends.Over, s.ends.Lost = s.ends.Daemons+e.Daemons, s.ends.Over+e.Over, s.ends.Lost+e.Lost
	s.ends.Code, s.ends.More = max(s.ends.Code, e.Code), s.ends.More+e.More
	s.ends.Dropped = job.Added(s.ends.Dropped, e.Dropped)
	for f := range e.Failed.All() {
		s.failed = append(s.failed, f)
	}
	s.trim()
}

// trim keeps as many as a message may have.
func (s *sum) trim() {
	sort.SliceStable(s.failed, func(i, j int) bool { return s.failed[i].Number < s.failed[j].Number })
	if most := rankwire.MaxFailedDaemons; len(s.failed) > most {
		s.ends.More += uint32(len(s.failed) - most)
		clear(s.failed[most:])
		s.failed = s.failed[:most]
	}
}

func (s *sum) packed() rankwire.DaemonEnds {
	e := s.ends
	if len(s.failed) > 0 {
		e.Failed = rankwire.NewFailedDaemons(s.failed...)
	}
	return e
}
