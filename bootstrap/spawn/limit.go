package spawn

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"ibrun/internal/job"
	"ibrun/internal/limits"
	"ibrun/internal/plain"
	"ibrun/internal/proc"
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
			s.cfg.Post(Warning{fmt.Sprintf("limit %s is %s here, not %s as where ibrun was started: ask for a higher hard limit on this node",
				limits.Names[l.Resource], amount(want.Soft), amount(l.Soft))})
		}
		if want == have {
			continue
		}
		if harmful[l.Resource] {
			s.heldLimits = append(s.heldLimits, proc.RLimit{Resource: int(l.Resource), Soft: want.Soft, Hard: want.Hard})
			s.stub = append(s.stub, fmt.Sprintf("%d:%d:%d", l.Resource, want.Soft, want.Hard))
			continue
		}
		_ = syscall.Setrlimit(int(l.Resource), &syscall.Rlimit{Cur: want.Soft, Max: want.Hard})
	}
}

// attainable is what the kernel lets us set. Whether a hard limit can be raised is
// tried: not every root may (capabilities(7), CAP_SYS_RESOURCE), and files have a bound
// of their own (fs.nr_open). This process's soft limit, which could harm it, stays.
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

// LimitRole is the first argument of the stub: ":limit N:SOFT:HARD,... PATH ARGV...".
const LimitRole = ":limit"

// stubNumber is the descriptor that the stub closes by becoming the program.
const stubNumber = ControlFD + 1

// execLimited starts the stub, and waits until it is the program, has ended, or hangs.
func (s *Set) execLimited(c proc.Cmd, begin proc.Beginner) (*proc.Process, error) {
	over, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer over.Close()
	path := c.Path
	c.Path, c.Argv = "/proc/self/exe", append([]string{"ibrun", LimitRole, strings.Join(s.stub, ","), path}, c.Argv...)
	c.Files = append(c.Files[:stubNumber:stubNumber], theirs)
	p, err := begin(c).Result()
	theirs.Close()
	if err != nil {
		return nil, err
	}
	if c.Most > 0 {
		_ = over.SetReadDeadline(time.Now().Add(c.Most))
	}
	if _, err := over.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
		p.SignalGroup(syscall.SIGKILL)
		return nil, &fs.PathError{Op: "exec", Path: path, Err: proc.Hung(c.Most)}
	}
	return p, nil
}

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
			complain("cannot set limit %s: %v", limits.Names[r], err)
		}
	}
	syscall.CloseOnExec(stubNumber)
	path, argv := args[1], args[2:]
	code, err := refusal(path, syscall.Exec(path, argv, os.Environ()))
	if err == nil {
		code, err = 126, syscall.Exec("/bin/sh", byShell(path, argv), os.Environ())
	}
	complain("%v", err)
	return int(code)
}

// complain says on a rank's standard error what the agent cannot know, with the node.
func complain(format string, args ...any) {
	host, _ := os.Hostname()
	fmt.Fprintf(os.Stderr, "ibrun: %s: %s\n", plain.Text(host), plain.Text(fmt.Sprintf(format, args...)))
}
