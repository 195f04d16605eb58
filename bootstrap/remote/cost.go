package remote

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// CPU is what the session's own processes have taken so far, or 0 when it has
// none or that cannot be told. The kernel counts it in nanoseconds, as the first
// number of /proc/PID/schedstat (Documentation/scheduler/sched-stats.rst).
func (ses *Session) CPU() time.Duration {
	sum := time.Duration(0)
	for _, pid := range ses.Pids() {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid))
		if err != nil {
			continue // it has ended, or this kernel does not count
		}
		first, _, _ := strings.Cut(string(text), " ")
		ns, _ := strconv.ParseInt(first, 10, 64)
		sum += time.Duration(ns)
	}
	return sum / time.Duration(max(1, ses.shared))
}
