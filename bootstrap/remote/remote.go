// Package remote opens sessions: it starts the reaper and agent on another
// node, or on this one, and hands back the byte stream to the agent. It sends
// nothing of the job; the remote command is a constant of the build. It does
// not decide whom to start, when, or what a failure means.
package remote

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"time"

	"ibrun/bootstrap/reaper"
	"ibrun/bootstrap/remote/native"
	"ibrun/internal/build"
	"ibrun/internal/job"
)

// Options may be left out.
type Options struct {
	Rand   func() float64    // jitter, in [0, 1); for tests
	Notify func(text string) // why a host is left to ssh, and what that means; each reason once, from any goroutine
}

// Starter opens sessions. It is safe for concurrent use.
type Starter struct {
	how      job.LaunchOptions
	prefix   []string // the launcher with its arguments, up to the host
	dashes   bool     // the launcher knows "--"
	local    bool
	jitter   func() float64
	alloc    *allocStarter                 // whose starter makes the sessions; nil: none
	script   func() string                 // that finds an agent; most agents never ask
	native   bool                          // make ssh sessions in this process, where that can be done
	system   func() (native.System, error) // reads what the ssh configuration depends on; most agents never call it
	notify   func(string)
	mu       sync.Mutex
	reported []string // reasons
	gate     gate     // of native sessions
	coming   map[*Session]bool
	ran      map[int]time.Duration // by process, when Ran was last called; by its caller alone
}

// New makes a starter for a job's way of launching. The error says what is
// wrong with the launcher itself.
func New(how job.LaunchOptions, opt Options) (*Starter, error) {
	s := &Starter{how: how, jitter: opt.Rand, notify: opt.Notify, system: sync.OnceValues(native.Here)}
	s.script = sync.OnceValue(func() string { return command(how, build.Path(), s.role()) })
	if s.jitter == nil {
		s.jitter = rand.Float64
	}
	switch {
	case len(how.Exec) > 0:
		s.prefix = append(append(s.prefix, how.Exec...), how.Args...)
	case how.Launcher == "local":
		s.local = true
		return s, nil
	case how.Launcher == "ssh", how.Launcher == "pbs":
		s.dashes = true
		s.prefix = append([]string{
			"ssh", "-T", "-x", "-a", "-e", "none", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10",
		}, how.Args...)
		s.native = Native(how)
	case how.Launcher == "rsh":
		s.prefix = append([]string{"rsh"}, how.Args...)
	default:
		if s.alloc = newAllocStarter(how); s.alloc == nil || len(how.Starter) == 0 {
			return nil, fmt.Errorf("unknown launcher %q: write ssh, rsh or local, or give a command with "+
				"--launcher-exec", how.Launcher)
		}
		s.prefix = s.alloc.words
	}
	return s, nil
}

// Check says whether the launcher can be found on this machine.
func (s *Starter) Check() error {
	if s.local || s.native {
		return nil
	}
	if _, err := exec.LookPath(s.prefix[0]); err != nil {
		return fmt.Errorf("no such launcher on this machine: %s: %w; install it, or choose another with --launcher",
			s.prefix[0], errors.Unwrap(err))
	}
	return nil
}

// argv is the command of one session.
func (s *Starter) argv(t Target) []string {
	if s.local || t.Local {
		return []string{"ibrun", s.role()}
	}
	if s.alloc != nil {
		return s.alloc.argv(s.command(t), t.Host)
	}
	argv := append([]string(nil), s.prefix...)
	if s.dashes {
		argv = append(argv, "-o", "ServerAliveInterval="+strconv.Itoa(s.alive(t)))
	}
	if t.User != "" {
		argv = append(argv, "-l", t.User)
	}
	if s.dashes {
		argv = append(argv, "--")
	}
	return append(argv, t.Host, s.command(t))
}

// Seconds between the keepalives of the program ssh, which gives up when four of
// them have passed (ServerAliveCountMax). Where it connects to the node the kernel
// tells sooner that the node is cut off (answers.go). Behind a proxy the kernel
// speaks of the proxy, and sshd's own answers are all that there is: the node is
// given up after 12 s, also if all its processes are stopped.
const (
	aliveDirect  = 15
	aliveProxied = 3
)

// alive is how often ssh asks a host whether it is there, and says where that is
// not what it is elsewhere.
func (s *Starter) alive(t Target) int {
	system, err := s.system()
	if err != nil {
		return aliveDirect
	}
	proxy, shared := native.Between(system, t.Host, t.User, s.how.Args)
	if shared != "" {
		s.notifyOnce(shared, fmt.Sprintf("%s may be behind a connection that is shared (%s): if it is cut off, "+
			"that is noticed after 60 s, or as the connection's own ServerAliveInterval has it", t.Host, shared))
	}
	if proxy == "" {
		return aliveDirect
	}
	s.notifyOnce(proxy, fmt.Sprintf("%s is behind a proxy (%s): if it is cut off, or all its processes are stopped, "+
		"that is noticed after 12 s", t.Host, proxy))
	return aliveProxied
}

// notifyOnce tells the user something, each reason once.
func (s *Starter) notifyOnce(reason, text string) {
	s.mu.Lock()
	known := slices.Contains(s.reported, reason)
	if !known {
		s.reported = append(s.reported, reason)
	}
	s.mu.Unlock()
	if !known && s.notify != nil {
		s.notify(text)
	}
}

// command is what a session runs there.
func (s *Starter) command(t Target) string {
	if t.other {
		return command(s.how, "", s.role())
	}
	return s.script()
}

// role is what a session becomes: a reaper, which starts the agent.
func (s *Starter) role() string {
	if s.how.Contain {
		return reaper.Contain
	}
	return reaper.Role
}

// Native reports whether sessions are made in the agent's own process, where that can be done.
func Native(how job.LaunchOptions) bool {
	bySSH := how.Launcher == "ssh" || how.Launcher == "pbs"
	return len(how.Exec) == 0 && bySSH && how.SSH != "exec"
}
