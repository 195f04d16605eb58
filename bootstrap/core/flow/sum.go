package flow

import (
	"sort"

	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

// codeLost is the exit code that is assumed for daemons whose exit status is unknown.
const codeLost = 125

// sum summarizes the exit statuses of the daemons of an order in the subtree of this agent.
type sum struct {
	ends   rankwire.DaemonEnds     // all fields except Failed, which packed sets
	failed []rankwire.FailedDaemon // sorted by number, at most rankwire.MaxFailedDaemons
}

// add records the exit status of a daemon of this node. cause is an additional reason for a failure, or "".
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

// lose counts nodes whose daemons have an unknown exit status.
func (s *sum) lose(nodes uint32) {
	if s.ends.Lost += nodes; nodes > 0 {
		s.ends.Code = max(s.ends.Code, codeLost)
	}
}

// merge adds the summary e from the subtree of a child.
func (s *sum) merge(e rankwire.DaemonEnds) {
	s.ends.Daemons, s.ends.Over, s.ends.Lost = s.ends.Daemons+e.Daemons, s.ends.Over+e.Over, s.ends.Lost+e.Lost
	s.ends.Code, s.ends.More = max(s.ends.Code, e.Code), s.ends.More+e.More
	s.ends.Dropped = job.Added(s.ends.Dropped, e.Dropped)
	for f := range e.Failed.All() {
		s.failed = append(s.failed, f)
	}
	s.trim()
}

// trim limits the list of failed daemons to the maximum of a message. It keeps those with the smallest numbers and
// counts the others in More.
func (s *sum) trim() {
	sort.SliceStable(s.failed, func(i, j int) bool { return s.failed[i].Number < s.failed[j].Number })
	if most := rankwire.MaxFailedDaemons; len(s.failed) > most {
		s.ends.More += uint32(len(s.failed) - most)
		clear(s.failed[most:])
		s.failed = s.failed[:most]
	}
}

// packed returns the sum as it is sent in a message.
func (s *sum) packed() rankwire.DaemonEnds {
	e := s.ends
	if len(s.failed) > 0 {
		e.Failed = rankwire.NewFailedDaemons(s.failed...)
	}
	return e
}
