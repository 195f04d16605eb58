package remote

import (
	"fmt"
	"time"
)

// Phase is how far a session has come.
type Phase string

// The phases, in order. What a launcher does not tell apart is reported as the
// later of the two.
const (
	Resolve      Phase = "resolve"
	Connect      Phase = "connect"
	Version      Phase = "version exchange" // native ssh alone tells this, the next and Open apart
	KeyExchange  Phase = "key exchange"
	Authenticate Phase = "authenticate"
	Open         Phase = "open session"
	Begin        Phase = "start" // the remote shell and its start-up files
	Ship         Phase = "ship"  // the binary is on its way
	Agent        Phase = "agent" // the agent's first word
)

// Error says why a session did not come up.
type Error struct {
	Host  string
	Phase Phase
	Cause string // as seen
	Tail  string // the last lines that this session printed
	Hint  string // what to try
	early bool   // nothing was authenticated: trying again harms nobody
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
	Local      bool          // this very machine
	Most       time.Duration // that the session may take; 0: what the job says
	other      bool          // where this binary lies here is another build there
	role       string        // what the binary becomes that is sent there
	member     *member       // of the step that starts it together with others; nil: it has its own
}
