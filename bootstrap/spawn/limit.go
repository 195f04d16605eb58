package spawn

import (
	"fmt"
	"strconv"
	"syscall"

	"ibrun/internal/job"
	"ibrun/internal/limits"
	"ibrun/internal/proc"
)

// harmful marks the resources whose limits would harm the agent if it set them on itself. Each rank gets these limits
// between fork and exec. The agent sets the limits of all other resources on itself once, and the ranks inherit them.
// The index is the number of the resource, RLIMIT_CPU for example.
var harmful = [limits.Count]bool{0: true, 1: true, 2: true, 7: true, 9: true, 15: true}

// prepare sets the umask and the harmless limits of the agent. Ranks inherit them.
func (s *Set) prepare() {
	syscall.Umask(int(s.cfg.Job.Umask))
	own := limits.Original()
	for _, l := range s.cfg.Job.Limits {
		if int(l.Resource) >= limits.Count {
			continue
		}
		have := own[l.Resource]
		want := attainable(l, have)
		if want.Soft != l.Soft && want.Soft < l.Soft {
			s.cfg.Events.Warn(fmt.Sprintf("limit %s is %s here, not %s as where ibrun was started: ask for a higher hard limit on this node",
				limits.Names[l.Resource], amount(want.Soft), amount(l.Soft)))
		}
		if want == have {
			continue
		}
		if harmful[l.Resource] {
			s.limits = append(s.limits, proc.RLimit{Resource: int(l.Resource), Soft: want.Soft, Hard: want.Hard})
			continue
		}
		_ = syscall.Setrlimit(int(l.Resource), &syscall.Rlimit{Cur: want.Soft, Max: want.Hard})
	}
}

// attainable returns the limit closest to l that the kernel lets this process set. It tries to raise the hard limit,
// because root is not always allowed to (capabilities(7), CAP_SYS_RESOURCE), and fs.nr_open limits the number of
// files. The soft limit of this process stays unchanged.
func attainable(l job.Limit, have limits.Limit) limits.Limit {
	want := limits.Limit{Soft: l.Soft, Hard: l.Hard}
	var own syscall.Rlimit
	if l.Hard > have.Hard && (syscall.Getrlimit(int(l.Resource), &own) != nil ||
		syscall.Setrlimit(int(l.Resource), &syscall.Rlimit{Cur: own.Cur, Max: l.Hard}) != nil) {
		want.Hard = have.Hard
		want.Soft = min(want.Soft, want.Hard)
	}
	return want
}

func amount(v uint64) string {
	if v == limits.Infinity {
		return "unlimited"
	}
	return strconv.FormatUint(v, 10)
}
