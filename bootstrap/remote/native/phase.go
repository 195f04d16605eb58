// Package native opens ssh sessions within this process, with golang.org/x/crypto/ssh. A session behaves like one of
// the program ssh with the option BatchMode=yes: it uses the same keys and known hosts, refuses the same servers, and
// never prompts. The package reads the configuration as OpenSSH does, from ~/.ssh/config, /etc/ssh/ssh_config and
// arguments of ssh.
//
// If the configuration or the server needs something that the package does not support, the error is an *Unfit. The
// caller can run the program ssh instead. The package repeats a connection attempt only as ConnectionAttempts says; the
// caller decides whether to start a failed session again.
package native

import "time"

// Phase is how far a login has come.
type Phase string

// The phases, in order.
const (
	Resolve      Phase = "resolve"
	Connect      Phase = "connect"
	Version      Phase = "version exchange"
	KeyExchange  Phase = "key exchange"
	Authenticate Phase = "authenticate"
	Open         Phase = "open session"
	Exec         Phase = "start" // the command was sent, and is not confirmed
)

// Error says why there is no session.
type Error struct {
	Phase Phase
	Cause string // as seen
	Hint  string // what to try; HOST stands for the host
	Early bool   // the server turned the connection away before any authentication: trying again harms nobody
}

func (e *Error) Error() string { return string(e.Phase) + ": " + e.Cause }

// Silence on a connection that nothing was heard on for so long makes it ask
// whether anybody is there, as ServerAliveInterval does.
const aliveInterval = 15 * time.Second

// connectTimeout bounds connecting, version and key exchange where the user's
// configuration does not.
const connectTimeout = 10 * time.Second
