package agent

import (
	"ibrun/bootstrap/remote"
	"ibrun/internal/job"
)

// moments are the phases of a session that the launch is timed by.
var moments = map[remote.Phase]job.Moment{
	remote.Connect:      job.Connecting,
	remote.Version:      job.Authenticating,
	remote.KeyExchange:  job.Authenticating,
	remote.Authenticate: job.Authenticating,
	remote.Open:         job.Beginning,
	remote.Begin:        job.Beginning,

	remote.Ship:  job.Shipping,
	remote.Agent: job.AgentAnswered,
}

// moment is what a phase's beginning is called, or Moments.
func moment(p remote.Phase) job.Moment {
	if m, ok := moments[p]; ok {
		return m
	}
	return job.Moments
}
