// Package remote opens sessions: it starts the reaper and agent on another node, or on this one, and returns the byte
// stream to the agent. The remote command depends on the build and on the options of the launch, but contains nothing
// of the programs of the job. The caller decides which agents are started and when, and handles failures.
package remote

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strconv"
	"sync"
	"time"

	"ibrun/bootstrap/reaper"
	"ibrun/bootstrap/remote/native"
	"ibrun/internal/build"
	"ibrun/internal/job"
)

// Starter opens sessions. It is safe for concurrent use.
type Starter struct {
	how      job.LaunchOptions
	prefix   []string                      // the launcher with its arguments, up to the host
	dashes   bool                          // the launcher accepts "--" and ServerAliveInterval, as ssh does
	local    bool                          // all agents run on this machine: no launcher is used
	jitter   func() float64                // returns a number in [0, 1) for the waits between attempts
	alloc    *allocStarter                 // command of a resource manager; nil for another launcher
	script   func() string                 // returns the remote command; called only if a session is opened
	native   bool                          // open ssh sessions with package native where it supports the configuration
	system   func() (native.System, error) // reads what the ssh configuration depends on; called only if needed
	notify   func(string)
	reported sync.Map              // reasons for which notify was called, as keys
	gate     gate                  // limits the native sessions that are being opened
	coming   sync.Map              // sessions that are being opened, *Session, as keys
	ran      map[int]time.Duration // CPU and waiting time by process ID at the last call of Ran; used only by Ran
}

// New returns a starter for the launcher and the options in how. It returns an error if the launcher is unknown. The
// starter calls notify with texts for the user, such as the reason that the program ssh is used for a host. It calls
// notify once for each reason, from any goroutine. If notify is nil, the texts are dropped.
func New(how job.LaunchOptions, notify func(text string)) (*Starter, error) {
	s := &Starter{how: how, jitter: rand.Float64, notify: notify, system: sync.OnceValues(native.Here)}
	s.script = sync.OnceValue(func() string { return command(how, build.Path(), s.role()) })
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

// Check returns an error if the program of the launcher is not found on this machine.
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

// argv returns the arguments of the process that carries a session to t, with the program's name first.
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

// These values of ServerAliveInterval are in seconds. The program ssh ends a connection after 4 intervals without a
// reply (ServerAliveCountMax is 3 by default). On a direct connection, this machine's kernel detects sooner that the
// node is cut off (answers.go). Through a proxy, the kernel sees only the connection to the proxy, and the replies of
// sshd are the only sign of life. So the interval is short there: ssh ends the connection after 12 s, also if all
// processes of the node are stopped.
const (
	aliveDirect  = 15
	aliveProxied = 3
)

// alive returns the ServerAliveInterval in seconds for the program ssh to t. If the ssh configuration has a proxy or a
// shared connection for t, alive tells the user how late the loss of the node is noticed.
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

// notifyOnce passes text to the user, unless an earlier call had the same reason.
func (s *Starter) notifyOnce(reason, text string) {
	if _, known := s.reported.LoadOrStore(reason, true); !known && s.notify != nil {
		s.notify(text)
	}
}

// command returns the command line for the login shell of t.
func (s *Starter) command(t Target) string {
	if t.other {
		return command(s.how, "", s.role())
	}
	return s.script()
}

// role returns the first argument of the binary on a node. It makes the process a reaper, which starts the agent.
func (s *Starter) role() string {
	if s.how.Contain {
		return reaper.Contain
	}
	return reaper.Role
}

// Native reports whether sessions are opened with the ssh client of package native, where this client can be used.
func Native(how job.LaunchOptions) bool {
	bySSH := how.Launcher == "ssh" || how.Launcher == "pbs"
	return len(how.Exec) == 0 && bySSH && how.SSH != "exec"
}
