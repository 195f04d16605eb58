// Package native makes ssh sessions in this process, with golang.org/x/crypto/ssh, as the user's own ssh would with
// BatchMode: with the same keys, known hosts and refusals. It reads the user's configuration as OpenSSH does:
// ~/.ssh/config, /etc/ssh/ssh_config, and options of ssh's command line. It weakens no check and never prompts.
//
// If a session needs something that the package does not support, the error is an *Unfit, and the caller runs ssh
// instead. The package does not decide which hosts to connect to, or when to try again.
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
