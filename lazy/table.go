// Package lazy connects a rank to the other ranks of its job on demand. A Table stores and opens nothing for a peer
// before the first message to it or from it. Ranks of the same node are connected by socket pairs, and ranks of
// different nodes by a fabric, with the protocol of package peer. A Resolver finds the addresses of peers. Inside the
// package, ranks are numbered by slot (job.Layout).
package lazy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ibrun/fabric"
	"ibrun/internal/job"
	"ibrun/internal/poll"
	"ibrun/lazy/peer"
)

// Errors of the methods of Table that send or receive. These methods also return the error of their context.
var (
	// ErrFull is returned by TrySend if the message cannot be accepted without waiting.
	ErrFull = errors.New("the peer cannot take a message now")
	// ErrClosed is returned after Close.
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

// PeerError reports that a peer can no longer be reached.
type PeerError struct {
	Rank int // rank of the peer, not its slot
	Err  error
}

// about returns an error about the peer with the given slot.
func (t *Table) about(slot uint32, cause error) *PeerError {
	return &PeerError{int(t.layout().Rank(job.Slot(slot))), cause}
}

func (e *PeerError) Error() string { return fmt.Sprintf("rank %d: %v", e.Rank, e.Err) }

// Unwrap returns the cause.
func (e *PeerError) Unwrap() error { return e.Err }

// Worth says how much a pair of ranks has to send for a stream.
type Worth = peer.Worth

// Config contains the parameters of a Table.
type Config struct {
	Rank     uint32     // slot of this rank
	Epoch    uint16     // of this rank (job.Epoch)
	Floor    uint16     // lowest valid epoch of all ranks after a common restart; 0 before the first one
	Least    uint16     // minimum epoch of peers that run the same program as this rank; 0 means any epoch
	Layout   job.Layout // at the start; Table.Resized changes it
	Resolver Resolver
	Seal     *fabric.Seal // encrypts the packets to other nodes
	// Open opens the fabric to other nodes. The table calls it at most once, in Reach or for the first message to
	// another node: some devices take long to open, and many ranks never send to another node. It then calls Opened
	// with the address of the fabric and with its locks held. Opened may be nil. Open is nil if the job has one
	// node.
	Open   func(fabric.Sink) (fabric.Fabric, error)
	Opened func(fabric.Tuple)
	// Secondary opens a second fabric together with the first one. The table uses it for peers that only have
	// Ethernet if the first fabric is not Ethernet. There is no second fabric if Secondary is nil or returns nil.
	// The table calls SecondaryOpened with the address of the second fabric, before Opened and with its locks
	// held; the Kind of the address is NONE if there is no second fabric. SecondaryOpened publishes the address,
	// so that Resolver.AskSecondary of other ranks finds it.
	Secondary       func(fabric.Sink) fabric.Fabric
	SecondaryOpened func(fabric.Tuple)
	// Changed is called when the first of two fabrics has failed, with the error, and with nil when it works again.
	// The table calls it with its locks held. Changed may be nil.
	Changed func(failed error)
	// Worth decides when a pair of ranks moves from datagrams to a stream because of the amount of its data. The
	// zero value means never. If Packet is 0, the table uses the maximum size of a datagram.
	Worth Worth
	// Spin polls a stream before its reader sleeps.
	Spin poll.Spinner
	// Streams moves every pair of ranks on different nodes to a stream before its first message.
	Streams bool
	// Answer is the time that this node's agent took to answer, or 0 if it is not known. It is the first estimate
	// of the time in which peers acknowledge packets, because a slow node slows down both.
	Answer time.Duration
	// Restarts is set if failed ranks may be restarted, so that the failure of a peer is not final.
	Restarts bool
	// Hold is the time that a pair of ranks stays on the second fabric before it tries the first one again. 0 means
	// 10 s.
	Hold time.Duration
	// Bundle is the maximum time that a small message to another node waits for more messages, which are then sent
	// in the same packet. 0 disables this.
	Bundle time.Duration
	// MaxLive is the maximum number of connections over the fabric. If there are more, the table closes the one
	// that has been idle longest. 0 means 1,024.
	MaxLive int

	afterStep func(*peer.Peer) // in tests, checks a Peer after each of its steps
}

// Table sends messages to the other ranks of a job and receives messages from them, for one rank. Its methods may be
// called from any goroutine. A parameter named rank is a slot.
type Table struct {
	cfg       Config
	of        atomic.Pointer[job.Layout] // current layout of the job
	way       way
	first     uint32 // lowest slot on this node
	locals    uint32 // number of ranks on this node
	in        *inbox
	memory    bufferPool
	fabric    fabric.Fabric // nil before Reach
	secondary fabric.Fabric // opened by Config.Secondary; nil if there is no second fabric

	began time.Time       // when New was called
	ctx   context.Context // canceled by Close
	stop  context.CancelFunc

	mu     sync.Mutex // protects the fields up to broken; a goroutine with both locks locks fmu first
	nears  map[uint32]*localPeer
	fars   map[uint32]*remotePeer
	floors map[uint32]uint16 // lowest valid epochs of ranks that were restarted alone
	closed bool              // Close has been called
	broken error             // reason why no fabric works any more; nil while one works

	// fmu protects all remote peers and the fields up to rejects. One lock is enough for all peers, because they share
	// one socket.
	fmu     sync.Mutex
	scratch peer.Scratch
	out     batch                      // sealed datagrams that post will send
	blocks  map[uint32]*fabric.Block   // addresses of the ranks of a node, by node
	asking  map[uint32][]waitingRemote // peers that wait for the block of their node, by node
	live    int                        // number of connected peers in fars
	early   int                        // bytes of messages to peers in fars that are not connected yet
	opening peer.Openings              // limits the handshakes that this rank has started
	ready   []queued                   // Resolved events that wait for opening, oldest first
	tokens  uint64                     // number of the last token of a stream; starts at random
	stopped bool                       // Close has been called
	down    error                      // failure of the first of two fabrics, or nil; written with both locks held

	datagrams  uint64 // number of datagrams sent
	handshakes uint64 // bytes of handshakes sent
	rejects    uint64 // received packets of kind PacketReject

	readers sync.WaitGroup // goroutines that Close waits for
	lobby   lobby

	stats struct {
		sync.Mutex
		sums
		latency job.Histogram
	}
}

// sums contains the counters of a table. The index is one of the constants job.Count*.
type sums [job.Counts]uint64

// New returns a new table. It does not open the fabric.
func New(cfg Config) *Table {
	cfg.MaxLive = cmp.Or(cfg.MaxLive, 1024)
	t := &Table{
		cfg: cfg, in: newInbox(cfg.Rank, job.StartOf(cfg.Floor)),
		began: time.Now(),
		nears: map[uint32]*localPeer{}, fars: map[uint32]*remotePeer{}, blocks: map[uint32]*fabric.Block{},
		asking: map[uint32][]waitingRemote{}, floors: map[uint32]uint16{},
	}
	t.of.Store(&cfg.Layout)
	t.ctx, t.stop = context.WithCancel(context.Background())
	t.tokens = rand.Uint64()
	t.scratch.Expect(cfg.Answer)
	first, locals := cfg.Layout.SlotsOn(cfg.Layout.NodeOf(job.Slot(cfg.Rank)))
	t.first, t.locals = uint32(first), locals
	return t
}

// isNear reports whether a rank runs on this node. It returns true for this rank itself.
func (t *Table) isNear(rank uint32) bool { return rank >= t.first && rank-t.first < t.locals }

// check returns an error if the job has no such rank, if m is too long, or if the table is closed.
func (t *Table) check(rank uint32, m []byte) error {
	if rank >= t.layout().Ranks() {
		return fmt.Errorf("rank %d of 0 to %d: %w", rank, t.layout().Ranks()-1, ErrRank)
	}
	if len(m) > MaxMessage {
		return fmt.Errorf("message of %d bytes, at most %d: %w", len(m), MaxMessage, ErrTooLong)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return ErrClosed
	}
	return nil
}

// checkSend is like check, but also returns a *RestartError if rank was restarted and the program has not been told
// yet. So no message reaches a restarted rank before the program knows of the restart.
func (t *Table) checkSend(rank uint32, m []byte) error {
	if err := t.check(rank, m); err != nil {
		return err
	}
	return t.in.claimOf(rank)
}

// Send sends m to a rank. When it returns, it has copied or written m, and the caller may reuse m. Messages from one
// sender to one receiver arrive exactly once and in order. After ctx is done, Send returns the error of ctx, unless it
// has already written a part of a long message. A *PeerError means that the rank cannot be reached any more. Messages
// that earlier calls have accepted may be lost, too.
func (t *Table) Send(ctx context.Context, rank uint32, m []byte) error {
	if err := t.checkSend(rank, m); err != nil {
		return err
	}
	t.sent(m)
	switch {
	case rank == t.cfg.Rank:
		t.in.put(Message{rank, append([]byte(nil), m...)}, 0)
		return nil
	case t.isNear(rank):
		return t.localPeer(rank).send(ctx, t, m)
	}
	if err := t.Reach(); err != nil {
		return t.about(rank, err)
	}
	return t.remotePeer(rank).send(ctx, m)
}

// TrySend is like Send, but does not wait for the other rank. It returns ErrFull if it cannot accept the message now.
// If there is no connection yet, TrySend starts to connect. It may wait for Reach.
func (t *Table) TrySend(rank uint32, m []byte) (err error) {
	if err := t.checkSend(rank, m); err != nil {
		return err
	}
	switch {
	case rank == t.cfg.Rank:
		t.in.put(Message{rank, append([]byte(nil), m...)}, 0)
	case t.isNear(rank):
		err = t.localPeer(rank).try(t, m)
	default:
		if err = t.Reach(); err != nil {
			return t.about(rank, err)
		}
		err = t.remotePeer(rank).try(m)
	}
	if err == nil {
		t.sent(m)
	}
	return err
}

// sent counts a message that Send or TrySend accepts.
func (t *Table) sent(m []byte) {
	t.count(func(s *sums) { s[job.CountMessages]++; s[job.CountBytes] += uint64(len(m)) })
}

// Recv waits for the next message from any rank. If no message is queued, it returns each of these errors once: a
// *PeerError if messages to a rank were lost, because it did not answer for 30 s or because the device failed; a
// *PeerError for each call of Failed; and a *RestartError for each rank that was restarted. Lost messages are an error
// of Recv because the rank may wait for them forever, and this rank for its reply.
func (t *Table) Recv(ctx context.Context) (Message, error) { return t.in.take(ctx, 0, true) }

// Failed records that a rank has failed in a job that continues after failures. One call of Recv that finds no message
// returns a *PeerError about it.
func (t *Table) Failed(rank uint32) { t.in.failed(t.about(rank, ErrFailed)) }

// Acknowledge discards the failures that Failed has recorded and Recv has not returned yet.
func (t *Table) Acknowledge() { t.in.acknowledge() }

// RecvFrom waits for the next message from one rank. If that rank has ended or cannot be reached any more, RecvFrom
// returns a *PeerError after all messages that have arrived from it.
func (t *Table) RecvFrom(ctx context.Context, rank uint32) (Message, error) {
	if err := t.check(rank, nil); err != nil {
		return Message{}, err
	}
	if !t.isFar(rank) {
		return t.in.take(ctx, rank, false)
	}
	if err := t.Reach(); err != nil {
		return Message{}, t.about(rank, err)
	}
	f := t.remotePeer(rank)
	f.suspicion.begin(time.Since(t.began))
	m, err := t.in.take(ctx, rank, false)
	f.suspicion.end()
	return m, err
}

// isFar reports whether a rank runs on another node, so that messages to it use the fabric.
func (t *Table) isFar(rank uint32) bool { return rank != t.cfg.Rank && !t.isNear(rank) }

// Free lets the table reuse the memory of a received message. The caller must not use m afterwards. Calling Free is
// optional.
func (t *Table) Free(m []byte) { t.memory.put(m) }

// Warm starts to connect to the given ranks, so that their first messages are faster. It does not wait for the
// connections.
func (t *Table) Warm(ranks ...uint32) error {
	for _, r := range ranks {
		if err := t.check(r, nil); err != nil {
			return err
		}
		switch {
		case r == t.cfg.Rank:
		case t.isNear(r):
			t.localPeer(r).ask(t)
		case t.Tuple().Kind == fabric.NONE:
			t.apart(func() {
				if t.Reach() == nil {
					t.remotePeer(r).warm()
				}
			})
		default:
			t.remotePeer(r).warm()
		}
	}
	return nil
}

// apart runs f in a goroutine that Close waits for. After Close it does nothing.
func (t *Table) apart(f func()) {
	t.fmu.Lock()
	defer t.fmu.Unlock()
	if !t.stopped {
		t.readers.Go(f)
	}
}

// count calls f with the counters locked, so that f can change them.
func (t *Table) count(f func(*sums)) {
	t.stats.Lock()
	f(&t.stats.sums)
	t.stats.Unlock()
}

// latency records the duration of the first Send to a peer: until a remote peer has acknowledged the message, or until
// the message has been written to the socket of a local peer.
func (t *Table) latency(d time.Duration) {
	t.stats.Lock()
	t.stats.latency.Observe(d)
	t.stats.Unlock()
}

// Tally returns the current values of the counters of this rank, with those of its fabric.
func (t *Table) Tally() job.Tally {
	t.fmu.Lock()
	defer t.fmu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stats.Lock()
	defer t.stats.Unlock()
	tally := job.Tally{Sum: t.stats.sums, Latency: t.stats.latency}
	tally.Sum[job.CountRanks] = 1
	tally.Sum[job.CountDatagrams], tally.Sum[job.CountRejects] = t.datagrams, t.rejects
	tally.Sum[job.CountAddressBytes] += t.handshakes
	for _, f := range t.fars {
		tally.Sum[job.CountRetransmits] += f.peer.Counts().Resent
	}
	if f, ok := t.fabric.(fabric.Counter); ok {
		c := f.Counted()
		tally.Sum[job.CountDatagramPairs] += c.DatagramPairs
		tally.Sum[job.CountStreamPairs] += c.StreamPairs
		tally.Sum[job.CountSparePairs] += c.SparePairs
		tally.Sum[job.CountCold] += c.ColdPairs
		tally.Sum[job.CountStrangers] += c.Strangers
		tally.Sum[job.CountPinned] += c.Pinned
		tally.Sum[job.CountOpening] += uint64(c.Opening.Microseconds())
	}
	return tally
}

// Close closes all connections and the fabric. Blocked calls return ErrClosed. Messages that have not been flushed may
// be lost. Close returns the errors of closing the fabrics. Later calls return nil.
func (t *Table) Close() error {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return nil
	}
	t.closed = true
	nears := slices.Collect(maps.Values(t.nears))
	t.mu.Unlock()
	t.fmu.Lock()
	t.stopped = true
	t.fmu.Unlock()
	t.stop()
	t.in.close(ErrClosed)
	for _, n := range nears {
		n.close()
	}
	for _, f := range t.remotePeers() {
		f.end()
	}
	err := t.way.close(t)
	t.readers.Wait()
	return err
}
