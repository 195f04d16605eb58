package ibrun

import (
	"errors"
	"fmt"

	"ibrun/lazy"
)

// Errors to compare with [errors.Is]. Most come wrapped in text that says which call failed and
// why.
var (
	// ErrInitialized: Init was called before in this process.
	ErrInitialized = errors.New("ibrun: Init was called before in this process")
	// ErrFinalized: the call came after Finalize.
	ErrFinalized = lazy.ErrClosed
	// ErrNoSuchRank: a rank is below 0, or not below Size().
	ErrNoSuchRank = lazy.ErrRank
	// ErrWouldBlock: TrySend cannot take the message now.
	ErrWouldBlock = lazy.ErrFull
	// ErrTooLong: a message, a key, a value or what is passed to a collective exceeds its limit.
	ErrTooLong = lazy.ErrTooLong
	// ErrInvalidKey: a key of Put or Get is empty or begins with a zero byte.
	ErrInvalidKey = errors.New("invalid key")
	// ErrValueCount: Scatter or AllToAll was not given one value for each rank.
	ErrValueCount = errors.New("not one value for each rank")
	// ErrKeyExists: this rank has put another value under the key before.
	ErrKeyExists = errors.New("the key exists, with another value")
	// ErrNotPut: the cause of a PeerError about a rank that ended without putting a key.
	ErrNotPut = errors.New("it never put the key")
	// ErrRestarted: a collective failed because a rank was restarted, which takes part in the next.
	ErrRestarted = errors.New("a rank was restarted")
	// ErrNoRestart: the job was not started with --on-failure restart or restart-all.
	ErrNoRestart = errors.New("no rank of this job is restarted: start it with --on-failure restart or restart-all")
	// ErrLeft: a Resize has taken this rank out of the job.
	ErrLeft = errors.New("this rank has left the job: it can only call Finalize")
	// ErrFailed: the cause of a PeerError about a rank that has failed: it was killed, or ended
	// with an exit code other than 0 before Finalize.
	ErrFailed = lazy.ErrFailed
)

// PeerError says that one rank cannot be reached any more, and why: ErrFailed if the rank has
// failed, another cause if it has ended or if the network to it does not work. Its field Rank is
// the number of that rank, and its field Err is the cause, which Unwrap returns.
type PeerError = lazy.PeerError

// RestartError says that a rank was restarted. What was sent to its old start and was not
// acknowledged is lost. Its field Rank is the number of that rank, and Restarts how often it was
// restarted so far.
type RestartError = lazy.RestartError

// CollectiveError says that a collective failed, which it does for every rank alike: a rank ended
// before it called it, ranks called different collectives or named different roots, or the values
// of all ranks together were too much for the launch tree. The next collective can succeed.
type CollectiveError struct {
	Op  string // the method of World, such as "Barrier"
	Err error
}

func (e *CollectiveError) Error() string { return fmt.Sprintf("ibrun: %s failed: %v", e.Op, e.Err) }

// Unwrap returns the cause.
func (e *CollectiveError) Unwrap() error { return e.Err }

// AgentError says that this node's agent did not take the process into the job, or is lost. After
// that nothing but messages between ranks that are connected can work, and the agent's end ends
// this process soon.
type AgentError struct{ Err error }

func (e *AgentError) Error() string { return "ibrun: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *AgentError) Unwrap() error { return e.Err }
