package spawn

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"ibrun/internal/limits"
	"ibrun/internal/plain"
	"ibrun/job"
)

// Limits that would harm the agent if it set them on itself: they are set by a
// stub between fork and the program. The others are set on the agent once and
// inherited.
var harmful = [limits.Count]bool{0: true, 1: true, 2: true, 7: true, 9: true, 15: true}

// prepare gives the agent what ranks inherit: umask and harmless limits.
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
			s.cfg.Post(Warning{fmt.Sprintf("%s: limit %s is %s here, not %s as where ibrun was started: ask for a higher hard limit on this node",
				s.cfg.Node.Host, limits.Names[l.Resource], amount(want.Soft), amount(l.Soft))})
		}
		if want == have {
			continue
		}
		if harmful[l.Resource] {
			s.stub = append(s.stub, fmt.Sprintf("%d:%d:%d", l.Resource, want.Soft, want.Hard))
			continue
		}
		_ = syscall.Setrlimit(int(l.Resource), &syscall.Rlimit{Cur: want.Soft, Max: want.Hard})
	}
}

// attainable is what the kernel lets us set: root may raise a hard limit,
// others may not.
func attainable(l job.Limit, have limits.Limit) limits.Limit {
	want := limits.Limit{Soft: l.Soft, Hard: l.Hard}
	if os.Geteuid() != 0 {
		want.Hard = min(want.Hard, have.Hard)
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

// LimitRole is the first argument of the stub: ":limit N:SOFT:HARD,... PATH ARGV...".
const LimitRole = ":limit"

// LimitMain is the stub. It sets its limits and becomes the program.
func LimitMain(args []string) int {
	if len(args) < 3 {
		return 125
	}
	for _, item := range strings.Split(args[0], ",") {
		var r int
		var l syscall.Rlimit
		if _, err := fmt.Sscanf(item, "%d:%d:%d", &r, &l.Cur, &l.Max); err != nil {
			return 125
		}
		if err := syscall.Setrlimit(r, &l); err != nil {
			fmt.Fprintf(os.Stderr, "ibrun: cannot set limit %s: %v\n", limits.Names[r], err)
		}
	}
	err := syscall.Exec(args[1], args[2:], os.Environ())
	fmt.Fprintf(os.Stderr, "ibrun: %s: %v\n", plain.Text(args[1]), err)
	return 126
}
