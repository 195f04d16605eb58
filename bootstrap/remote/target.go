package remote

import (
	"fmt"
	"time"
)

// Phase is a step in the opening of a session.
type Phase string

// The phases, in order. If a launcher does not tell two phases apart, the later one is reported.
const (
	Resolve      Phase = "resolve"
	Connect      Phase = "connect"
	Version      Phase = "version exchange" // package native alone reports Version, KeyExchange and Open
	KeyExchange  Phase = "key exchange"
	Authenticate Phase = "authenticate"
	Open         Phase = "open session"
	Begin        Phase = "start" // the remote shell runs its start-up files
	Ship         Phase = "ship"  // the binary is being sent
	Agent        Phase = "agent" // the agent's first line has been read
)

// Error describes why a session could not be opened.
type Error struct {
	Host  string
	Phase Phase
	Cause string // an error, or a line that the session printed
	Tail  string // the last lines that the session printed, for the user
	Hint  string // advice for the user, or empty
	early bool   // the failure is temporary and occurred before authentication, so Start tries again
}

func (e *Error) Error() string {
	s := fmt.Sprintf("%s: %s: %s", e.Host, e.Phase, e.Cause)
	if e.Hint != "" {
		s += "; " + e.Hint
	}
	return s
}

// Target is the node to start an agent on.
type Target struct {
	Host, User string
	Local      bool          // Host is this machine: no launcher is used
	Most       time.Duration // time limit for the start of the agent; 0: the job's LaunchOptions.Timeout
	other      bool          // skip the path of this binary: another build is at this path on Host
	role       string        // the first argument of the binary on Host: reaper.Role or reaper.Contain
	member     *member       // session in a step of several hosts; nil if the target gets a session of its own
}
