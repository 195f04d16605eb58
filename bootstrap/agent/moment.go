package agent

import (
	"ibrun/bootstrap/remote"
	"ibrun/bootstrap/remote/native"
	"ibrun/job"
)

// moments are the phases of a session that the launch is timed by.
var moments = map[remote.Phase]job.Moment{
	remote.Connect:                   job.Connecting,
	remote.Phase(native.Version):     job.Authenticating,
	remote.Phase(native.KeyExchange): job.Authenticating,

	remote.Authenticate:       job.Authenticating,
	remote.Phase(native.Open): job.Beginning,
	remote.Begin:              job.Beginning,

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
