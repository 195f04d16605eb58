package lazy

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Errors of the methods of Table that send or receive. These methods also return the error of their context.
var (
	// ErrFull is returned by TrySend if the message cannot be accepted without waiting for the other rank.
	ErrFull = errors.New("the peer cannot take a message now")
	// ErrClosed is returned after Table.Close.
	ErrClosed = errors.New("finalized")
	// ErrRank is returned for a rank that the job does not have.
	ErrRank = errors.New("no such rank")
	// ErrEnded is the cause of a PeerError about a rank that has ended without failing.
	ErrEnded = errors.New("it has ended")
	// ErrFailed is the cause of a PeerError about a rank that has failed. It was killed, exited before Finalize
	// with a code other than 0, or its connection broke.
	ErrFailed = errors.New("it was lost")
	// ErrTooLong is returned for a message of more than MaxMessage bytes.
	ErrTooLong = errors.New("too long")
)

// errSilent is the cause of a PeerError if the fabric ends a stream because the peer's node has not acknowledged its
// data in time.
var errSilent = errors.New("its node acknowledges nothing that is sent by the stream")

// errMoved is the error of a stream that was aborted because its messages are sent over another network.
var errMoved = errors.New("the pair goes by another network")

// PeerError reports that a peer can no longer be reached.
type PeerError struct {
	Rank int // rank of the peer, not its slot
	Err  error
}

func (e *PeerError) Error() string { return fmt.Sprintf("rank %d: %v", e.Rank, e.Err) }

// Unwrap returns the cause.
func (e *PeerError) Unwrap() error { return e.Err }

// RestartError reports that a rank was restarted. Messages that were sent to it before the restart and not acknowledged
// are lost.
type RestartError struct {
	Rank     int // rank that was restarted, not its slot
	Restarts int // number of restarts of that rank so far
}

func (e *RestartError) Error() string {
	return fmt.Sprintf("rank %d was restarted (its restarts so far: %d)", e.Rank, e.Restarts)
}

// ended converts an error of a stream to the cause of a PeerError: ErrEnded if the peer has closed the stream, and
// errSilent if the stream has timed out. It returns any other error unchanged.
func ended(err error) error {
	switch {
	case errors.Is(err, io.EOF) || isReset(err):
		return ErrEnded
	case errors.Is(err, os.ErrDeadlineExceeded): // set by the fabric: slept handles the deadlines of this package
		return errSilent
	}
	return err
}

// isReset reports whether err means that the other side has closed the socket.
func isReset(err error) bool {
	return errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EPIPE) || errors.Is(err, io.ErrUnexpectedEOF)
}
