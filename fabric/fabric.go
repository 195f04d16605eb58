// Package fabric holds the nouns of data transport: I-tuples, node blocks,
// the sealed envelope of a datagram, and what a fabric must be able to do. It
// opens nothing and sends nothing.
package fabric

import (
	"context"
	"errors"
	"io"
	"time"

	"ibrun/internal/poll"
)

// What a fabric's methods fail with.
var (
	// ErrClosed is returned by every method after Close.
	ErrClosed = errors.New("fabric is closed")
	// ErrTooLong is returned for a datagram over MTU.
	ErrTooLong = errors.New("datagram is longer than the link takes")
)

// Fabric is one rank's way to ranks of other nodes. It moves datagrams, which
// may be lost, doubled or overtaken but not changed, and makes byte streams.
// It knows nothing of ranks, seals or messages. Methods may be called from any
// goroutine.
type Fabric interface {
	// Tuple is where this endpoint is reached.
	Tuple() Tuple
	// MTU returns the maximum size in bytes of a datagram that the local link transmits unfragmented.
	MTU() int
	// Post sends one datagram and does not retain b. It does not block: if the link is busy, the datagram is lost.
	// It returns an error only if no datagram can ever be sent to the endpoint.
	Post(to Tuple, b []byte) error
	// PostAll sends several datagrams like Post. The datagrams are consecutive in b. Each has size bytes, but the last
	// may have fewer. There are at most MaxBatch of them.
	PostAll(to Tuple, b []byte, size int) error
	// Offer makes this endpoint ready to be dialled and returns what the other
	// side needs for that besides the tuple, at most 64 bytes.
	Offer() ([]byte, error)
	// Dial opens a stream to an endpoint that made the offer.
	Dial(ctx context.Context, to Tuple, offer []byte) (Stream, error)
	// Close ends the endpoint; streams live on. It waits until no method of
	// the sink runs, so it must not be called from there.
	Close() error
}

// Driver is a Fabric whose datagrams can be received by the goroutine that waits for a message, instead of the fabric's
// own goroutine. This saves a switch of goroutines for each datagram.
type Driver interface {
	Fabric
	// Turn returns the lock that one goroutine at a time holds to call Drive. Drive releases the lock. A goroutine
	// that does not call Drive releases it with Leave.
	Turn() *poll.Turn
	// Drive waits for a datagram, and hands it and those that came with it to
	// the sink in the caller's goroutine.
	Drive()
	// Wake makes a Drive that is under way, or the next one, return.
	Wake()
}

// MaxBatch and MaxBatchBytes are the most datagrams for one PostAll, and the most bytes.
const (
	MaxBatch      = 64
	MaxBatchBytes = 60 << 10
)

// Stream is a reliable, ordered stream of bytes in both directions. Close
// lets what was written arrive.
type Stream interface {
	io.ReadWriteCloser
	// SetDeadline sets the time at which reads and writes fail. The zero time removes it.
	SetDeadline(time.Time) error
}

// TryWriter is a Stream that is no socket and can write without waiting.
type TryWriter interface {
	Stream
	// TryWrite takes as much of b as it can at once, which may be nothing.
	TryWrite(b []byte) (int, error)
}

// Confirmer is a Stream that knows how far the other side has read. What it has read it will
// deliver to its owner, also when the stream fails then.
type Confirmer interface {
	Stream
	// Confirmed is how many bytes were written in all, and how many of them the other side is known
	// to have read. Only the writer's own bytes count, and memory that the other side reads where
	// it is counts for nothing: a Write of that returns when it was read.
	Confirmed() (written, read uint64)
	// OnFail asks for a call, in a goroutine of its own, when the stream fails; at once if it has.
	OnFail(func(error))
	// Abort ends the stream for both directions at once. The other side is not told.
	Abort(err error)
}

// Counter is a Fabric over a device, which counts what it has used of it.
type Counter interface {
	Fabric
	Counted() Counts
	// MostStreams returns the maximum number of streams on the device. All processes of the node share this number.
	MostStreams() int
}

// Counts are what an endpoint has used of its device so far.
type Counts struct {
	DatagramPairs uint64 // queue pairs for datagrams
	StreamPairs   uint64 // queue pairs that streams were made of
	SparePairs    uint64 // queue pairs made for streams that none has used
	ColdPairs     uint64 // of StreamPairs, made when they were needed already
	Strangers     uint64 // datagrams of others, dropped
	Pinned        uint64 // bytes of memory registered now
	Opening       time.Duration
}

// Watcher is a Sink that hears what becomes of its endpoint. It may be called beside the others.
type Watcher interface {
	Sink
	// Broken says that the endpoint will never work again: nothing will arrive, and every Post
	// fails.
	Broken(err error)
	// Down says that nothing arrives or leaves until Up. The answer is whether the owner does
	// without the endpoint meanwhile: then Post drops what it is given, for as long as it takes.
	Down(err error) (spared bool)
	Up()
}

// Sink takes what arrives. The fabric calls it from its own goroutine or from
// that of a driver, one datagram after the other.
type Sink interface {
	// Datagram gets one datagram. b is the fabric's again on return. from is
	// where an answer may be sent; it is no proof of anything.
	Datagram(from Tuple, b []byte)
	// Accepted gets a stream that somebody dialled; nothing of it has been
	// read, and the caller is a stranger until it has proved otherwise. It
	// must not block.
	Accepted(s Stream)
}
