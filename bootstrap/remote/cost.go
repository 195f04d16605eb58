package remote

import (
	"fmt"
	"os"
	"time"
)

// CPU is what the session's own processes have taken so far, or 0 when it has
// none or that cannot be told.
func (ses *Session) CPU() time.Duration {
	sum := time.Duration(0)
	for _, pid := range ses.Pids() {
		ran, _ := scheduled(fmt.Sprintf("/proc/%d/schedstat", pid))
		sum += ran
	}
	return sum / time.Duration(max(1, ses.shared))
}

// scheduled is how long a thread has run so far, and how long it could have run and had
// no processor; 0 if it has ended, or this kernel does not count. The kernel counts
// in nanoseconds (Documentation/scheduler/sched-stats.rst, /proc/PID/schedstat).
func scheduled(path string) (ran, queued time.Duration) {
	text, _ := os.ReadFile(path)
	_, _ = fmt.Sscan(string(text), &ran, &queued)
	return ran, queued
}

// Ran is how long the launchers' processes of sessions on their way, and the threads of this
// process, have run or had no processor to run on, since the last call. A process counts with
// the thread that leads it: ssh and rsh have no other. A process that has ended, or carries a
// session that is up, no longer counts.
func (s *Starter) Ran() time.Duration {
	now := map[int]time.Duration{}
	tasks, _ := os.ReadDir("/proc/self/task")
	for _, t := range tasks {
		ran, queued := scheduled("/proc/self/task/" + t.Name() + "/schedstat")
		now[os.Getpid()] += ran + queued
	}
	for ses := range s.coming.Range {
		for _, pid := range ses.(*Session).Pids() {
			ran, queued := scheduled(fmt.Sprintf("/proc/%d/schedstat", pid))
			now[pid] = ran + queued
		}
	}
	sum := time.Duration(0)
	for pid, t := range now {
		sum += max(t-s.ran[pid], 0)
	}
	s.ran = now
	return sum
}
