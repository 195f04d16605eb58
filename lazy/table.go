// Package lazy is one rank's table of peers, numbered by slot (job.Layout): nothing is kept, asked
// or opened for a peer before the first message to it or from it. Ranks of the same node talk over
// socket pairs, others over a fabric, with package peer deciding. It does not know how questions
// travel to other agents.
package lazy

import (
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
	"ibrun/lazy/upgrade"
)

// What sending and receiving fail with, besides the context's errors.
var (
	// ErrFull is returned by TrySend when a message cannot be taken at once.
	ErrFull = errors.New("the peer cannot take a message now")
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("finalized")
	// ErrRank is returned for a rank that the job does not have.
	ErrRank = errors.New("no such rank")
	// ErrEnded is the cause of a PeerError about a rank that has ended without failing.
	ErrEnded = errors.New("it has ended")
	// ErrFailed is the cause of a PeerError about a rank that has failed: it was
	// killed, or ended with another code than 0 before Finalize.
	ErrFailed = errors.New("it was lost")
	// ErrTooLong is returned for a message over MaxMessage bytes.
	ErrTooLong = errors.New("too long")
)

var errSilent = errors.New("its node acknowledges nothing that is sent by the stream")

// PeerError says that a peer can no longer be reached, and why.
type PeerError struct {
	Rank int // as the user counts
	Err  error
}

// about makes an error about a peer, whose number here is its slot.
func (t *Table) about(slot uint32, cause error) *PeerError {
	return &PeerError{int(t.layout().Rank(job.Slot(slot))), cause}
}

func (e *PeerError) Error() string { return fmt.Sprintf("rank %d: %v", e.Rank, e.Err) }

// Unwrap returns the cause.
func (e *PeerError) Unwrap() error { return e.Err }

// Config is what a table knows of the job.
type Config struct {
	Rank     uint32
	Epoch    uint16
	Floor    uint16     // epoch from which on all ranks count: they were restarted together; 0: they were not
	Least    uint16     // peers' epochs from which on they are of the same program as this one; 0: any
	Layout   job.Layout // at first; see Resized
	Resolver Resolver
	Seal     *fabric.Seal
	// Open opens the way to other nodes. It is called once at most; nil: this
	// job has one node.
	Open func(fabric.Sink) (fabric.Fabric, error)
	// OpenOnDemand opens it when the first message needs it, or with Reach, rather than
	// in New: some devices take long to open, and many ranks never leave their
	// node. Opened hears of it, with the table's locks held; it may be nil.
	OpenOnDemand bool
	Opened       func(fabric.Tuple)
	// Secondary opens a second fabric together with the first one. The table uses it for peers that only have
	// Ethernet if the first fabric is not Ethernet. There is no second fabric if Secondary is nil or returns nil.
	// The table calls SecondaryOpened with the address of the second fabric, before Opened and with its locks
	// held; the Kind of the address is NONE if there is no second fabric. SecondaryOpened publishes the address,
	// so that Resolver.AskSecondary of other ranks finds it.
	Secondary       func(fabric.Sink) fabric.Fabric
	SecondaryOpened func(fabric.Tuple)
	// Changed hears that the first of two networks has failed, and why, or that it works again:
	// nil. It is called with the table's locks held, and may be nil.
	Changed func(failed error)
	// Worth is when a pair moves to a stream although datagrams suffice; zero: never. Packet may be
	// 0 for what one datagram carries.
	Worth upgrade.Worth
	// Spin is how long who waits for a stream polls before it sleeps.
	Spin poll.Spinner
	// Streams moves every pair to a stream before its first message.
	Streams bool
	// Answer is how long this node's agent took to answer; 0: not known. What
	// is slow on this node will be slow to answer others too.
	Answer time.Duration
	// Restarts says that a rank which fails may start again, so that its end is not final.
	Restarts bool
	// Hold is how long a pair stays on the second network before the first is tried; 0: 10 s.
	Hold time.Duration
	// Bundle is how long a small message to another node may wait for others, which go with it in
	// one packet; 0: not at all.
	Bundle time.Duration
	// MaxLive is the number of connections over the fabric above which the
	// longest idle is closed; 0: 1,024.
	MaxLive int
}

// Table is the peers of one rank. Methods may be called from any goroutine.
type Table struct {
	cfg       Config
	of        atomic.Pointer[job.Layout] // of the job now
	way       way
	node      uint32
	first     uint32 // ranks of this node
	locals    uint32
	in        *inbox
	memory    bufferPool
	fabric    fabric.Fabric // nil before Reach
	secondary fabric.Fabric // Config.Secondary; nil: none

	began time.Time
	ctx   context.Context // ends with Close
	stop  context.CancelFunc

	mu     sync.Mutex // of the maps of peers; taken last
	nears  map[uint32]*localPeer
	fars   map[uint32]*remotePeer
	floors map[uint32]uint16 // of ranks that were restarted: the least epoch that counts
	closed bool
	broken error // why the fabric will never work again; nil while there is another

	// fmu is the lock of remote peers: every remote peer, the cache of blocks, and what they
	// share. One lock for all, since a rank has one socket anyway.
	fmu     sync.Mutex
	scratch peer.Scratch
	out     batch
	todo    []queued
	blocks  map[uint32]*fabric.Block
	asking  map[uint32][]waitingRemote // by node: who waits for its block
	live    int                        // fars that are connected
	early   int                        // bytes staged for fars that are not
	opening peer.Openings              // handshakes that we have begun and not ended
	ready   []queued                   // addresses for handshakes that wait for their turn
	tokens  uint64
	stopped bool
	down    error // why the first of two networks does not work; written with mu, too

	datagrams, handshakes, rejects uint64

	readers sync.WaitGroup
	lobby   lobby

	stats struct {
		sync.Mutex
		sums
		latency job.Histogram
	}
}

// sums are the table's own counts.
type sums [job.Counts]uint64

// The counts that this package keeps.
const (
	countPeers        = job.CountPeers
	countLocal        = job.CountLocal
	countLookups      = job.CountLookups
	countChecks       = job.CountChecks
	countAddressBytes = job.CountAddressBytes
)

// New makes a table and opens its fabric, unless that is to be late.
func New(cfg Config) (*Table, error) {
	if cfg.MaxLive == 0 {
		cfg.MaxLive = 1024
	}
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
	node := cfg.Layout.NodeOf(job.Slot(cfg.Rank))
	first, locals := cfg.Layout.SlotsOn(node)
	t.node, t.first, t.locals = uint32(node), uint32(first), locals
	if cfg.Open != nil && !cfg.OpenOnDemand {
		if err := t.Reach(); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// isNear reports whether a rank shares this node.
func (t *Table) isNear(rank uint32) bool { return rank >= t.first && rank-t.first < t.locals }

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

// checkSend is check for a message to a rank. It goes to the start of the rank that the program
// knows.
func (t *Table) checkSend(rank uint32, m []byte) error {
	if err := t.check(rank, m); err != nil {
		return err
	}
	if err := t.in.claimOf(rank); err != nil {
		return err
	}
	return nil
}

// Send takes a message for a rank: when it returns, the message is copied or
// written, and m is the caller's again. Messages of one sender to one receiver
// arrive once, in order. The context is honoured until the first byte of a
// long message is on its way. A *PeerError says that the rank is gone; it may
// be about messages that were taken before.
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

// TrySend is Send that does not wait: it takes the message now or returns
// ErrFull, in which case it has begun to connect if that was missing.
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

func (t *Table) sent(m []byte) {
	t.count(func(s *sums) { s[job.CountMessages]++; s[job.CountBytes] += uint64(len(m)) })
}

// Recv waits for the next message of any rank. When messages to a rank were lost
// on the way, by 30 s without an answer or a device that does not send, it
// returns that *PeerError once: that rank may be waiting for them for ever. So it
// does for each rank that has failed.
func (t *Table) Recv(ctx context.Context) (Message, error) { return t.in.take(ctx, 0, true) }

// Failed says that a rank has failed, in a job that goes on: one Recv that finds no
// message returns that *PeerError.
func (t *Table) Failed(rank uint32) { t.in.failed(t.about(rank, ErrFailed)) }

// Acknowledge keeps Recv from returning what Failed has said so far.
func (t *Table) Acknowledge() { t.in.acknowledge() }

// RecvFrom waits for the next message of one rank. When that rank is gone and
// all it sent has been received, it returns a *PeerError.
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

// isFar reports whether a rank is reached over the fabric.
func (t *Table) isFar(rank uint32) bool { return rank != t.cfg.Rank && !t.isNear(rank) }

// Free gives the memory of a received message back, to be used for another.
// The caller must not touch it again. It need not be called.
func (t *Table) Free(m []byte) { t.memory.put(m) }

// Warm connects ahead of the first message. It does not wait.
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

// apart runs f in a goroutine that Close waits for.
func (t *Table) apart(f func()) {
	t.fmu.Lock()
	defer t.fmu.Unlock()
	if !t.stopped {
		t.readers.Go(f)
	}
}

// count changes the sums.
func (t *Table) count(f func(*sums)) {
	t.stats.Lock()
	f(&t.stats.sums)
	t.stats.Unlock()
}

// latency records how long a first message took.
func (t *Table) latency(d time.Duration) {
	t.stats.Lock()
	t.stats.latency.Observe(d)
	t.stats.Unlock()
}

// Tally is what this rank has counted so far.
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
	tally.Sum[countAddressBytes] += t.handshakes
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

// Close ends the table: those who wait get ErrClosed. What was not flushed may
// be lost.
func (t *Table) Close() error {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return nil
	}
	t.closed = true
	nears, fars := slices.Collect(maps.Values(t.nears)), slices.Collect(maps.Values(t.fars))
	t.mu.Unlock()
	t.fmu.Lock()
	t.stopped = true
	t.fmu.Unlock()
	t.stop()
	t.in.close(ErrClosed)
	for _, n := range nears {
		n.close()
	}
	for _, f := range fars {
		f.end()
	}
	err := t.way.close(t)
	t.readers.Wait()
	return err
}
