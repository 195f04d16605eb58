// Package timingtest computes the times of launches that did not happen, for tests of package tree and of the page that
// --report writes.
package timingtest

import (
	"fmt"
	"time"

	"ibrun/bootstrap/tree"
	"ibrun/internal/job"
)

// Made is a launch that went exactly as the model says; each of its sessions
// has all phases.
func Made(n int, shape string) *tree.Launch {
	s, err := tree.Parse(shape)
	if err != nil {
		panic(err)
	}
	l := &tree.Launch{Root: "front", Launcher: "ssh", Agents: n, Ranks: 16 * n, Shape: s, Source: "built in"}
	var grow func(parent job.NodeIndex, level, below int, at time.Duration)
	grow = func(parent job.NodeIndex, level, below int, at time.Duration) {
		for turn, size := range s.Split(level, below) {
			t := job.NewNodeTimes(job.NodeIndex(len(l.Nodes)))
			t.Parent = parent
			up := at + s.Cost.Start(turn) + s.Cost.REM
			from := up - s.Cost.REM
			for i, m := range []job.Moment{
				job.SessionStarted, job.Connecting, job.Authenticating, job.Beginning, job.Shipping, job.AgentAnswered,
			} {
				t.At[m] = from + s.Cost.REM*time.Duration(i)/6
			}
			t.At[job.LaunchSent], t.At[job.LaunchReceived], t.At[job.ForkStarted] = up, up, up
			t.At[job.RanksStarted] = up + 5*time.Millisecond
			t.At[job.ReadySent], t.At[job.ReadyReceived] = up+9*time.Millisecond, up+9*time.Millisecond
			l.Nodes = append(l.Nodes, tree.Node{Host: fmt.Sprintf("node%04d", len(l.Nodes)+1), NodeTimes: t})
			grow(t.Node+1, level+1, size, up)
		}
	}
	grow(0, 0, n+1, 0)
	return l
}
