// Package lazy connects a rank to the other ranks of its job on demand. A Table stores and opens nothing for a peer
// before the first message to it or from it. Ranks of the same node are connected by socket pairs, and ranks of
// different nodes by a fabric, with the protocol of package peer. A Resolver finds the addresses of peers. Inside the
// package, ranks are numbered by slot (job.Layout).
package lazy

import (
	"cmp"
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ibrun/fabric"
	"ibrun/internal/job"
	"ibrun/lazy/peer"
)

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

// remotePeer is a peer on another node. Its fields belong to the table's lock of remote peers.
type remotePeer struct {
	t        *Table
	rank     uint32
	peer     *peer.Peer
	timer    *time.Timer
	turn     chan struct{} // capacity 1: senders, one after the other
	news     chan struct{} // capacity 1: something that the one sender may wait for
	began    time.Time     // of the first Send; zero when its latency is known
	used     time.Duration
	early    int // bytes staged before the pair is connected
	opens    int
	up       bool
	slot     uint64 // its ticket for the handshake under way; 0: none
	checking bool   // the agent has been asked whether it runs

	suspicion suspicion // not under the lock

	stream *stream // as long as the pair has one

	before    uint64 // Repeated when it took the slot
	secondary secondary
	dialing   context.CancelFunc // of the dial under way; nil: none
	dialToken peer.Token         // of that dial
	resumes   uint64             // streams that have failed and lost nothing
	left      time.Time          // when the stream of the second network was to be given up last

	bundle bundle

	limbo bool  // its stream has ended, and the agent was asked what became of it
	runs  int   // answers since then that it runs
	alarm bool  // if it does, a receiver of any rank has to know of the stream
	why   error // the stream has ended

	failures int   // so far
	err      error // the last one
	reported int   // failures that some Send, Flush or Finalize has returned
	dead     error // it can never work again
	departed bool  // its rank is not of the job any more, and another may get its number
}

// localPeer is a peer on the same node. The agent connects two ranks by a socket pair when one of them asks for it.
//
//	new --send--> asked --the agent's answer--> open --end of stream--> closed
//	new --the agent's answer to the other rank--> open
type localPeer struct {
	rank    uint32        // slot of the peer
	asking  sync.Once     // makes ask send only one request
	decided sync.Once     // makes only the first call of decide take effect
	open    chan struct{} // closed when s or err is set
	s       *stream
	err     error // error because of which the pair has no stream, or nil
}

// way is how a table comes to its fabric: once, and perhaps late.
type way struct {
	once   sync.Once
	opened atomic.Pointer[fabric.Tuple]
	err    error
}

// batch is the datagrams of one step of a peer that go to the fabric together: all as long as the
// first, but for the last.
type batch struct {
	b      []byte
	remote *remotePeer
	to     fabric.Tuple
	size   int  // of the first
	count  int  // 0: there is none
	closed bool // the last one is shorter
}

// bundle is small messages to one peer that wait to go in one packet, each behind its length in two
// bytes, big-endian. It leaves when it is full, when its first message has waited for as long as it
// may, and before anything else goes to that peer. The lock of remote peers guards it.
type bundle struct {
	body  []byte
	count int
	since time.Duration // its first message came, by the table's clock
	timer *time.Timer   // nil: there was none yet
	armed bool          // it runs
}

// drop forgets it.
func (b *bundle) drop() { b.body, b.count = nil, 0 }

// secondary is the second address of a peer, which is an Ethernet address. Ranks that only have Ethernet use it if the
// first address of the peer is of another kind. Ranks with two fabrics use it while their first fabric is down.
type secondary struct {
	tuple fabric.Tuple // its Kind is NONE if the peer has no second fabric
	epoch uint16       // epoch of the peer with this address; 0 if the address is not known
	asked uint16       // epoch of the peer for which the agent has been asked; 0 if no question is open
}

// waitingRemote is a peer about which the agent has been asked. The fields least and fresh are the arguments of
// Resolver.AskBlock.
type waitingRemote struct {
	*remotePeer
	least uint16
	fresh bool
}

// queued is an answer of the agent that its peer has not got yet.
type queued struct {
	remote *remotePeer
	ev     peer.Event
}

// layout is how the ranks of the job lie on nodes now.
func (t *Table) layout() *job.Layout { return t.of.Load() }

// isNear reports whether a rank runs on this node. It returns true for this rank itself.
func (t *Table) isNear(rank uint32) bool { return rank >= t.first && rank-t.first < t.locals }

// isFar reports whether a rank runs on another node, so that messages to it use the fabric.
func (t *Table) isFar(rank uint32) bool { return rank != t.cfg.Rank && !t.isNear(rank) }

// nodeOf returns the index of the node on which a rank runs. rank is a slot.
func (t *Table) nodeOf(rank uint32) uint32 { return uint32(t.layout().NodeOf(job.Slot(rank))) }

// about returns an error about the peer with the given slot.
func (t *Table) about(slot uint32, cause error) *PeerError {
	return &PeerError{int(t.layout().Rank(job.Slot(slot))), cause}
}

// floor is the least epoch of a rank that counts; the caller holds the lock of the maps.
func (t *Table) floor(rank uint32) uint16 { return max(t.floors[rank], t.cfg.Floor) }

// start is the start of a rank that counts.
func (t *Table) start(rank uint32) uint8 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return job.StartOf(t.floor(rank))
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

// by is the way to an address.
func (t *Table) by(to fabric.Tuple) fabric.Fabric {
	if t.secondary != nil && to.Kind.Ethernet() {
		return t.secondary
	}
	return t.fabric
}

// mtu is what every peer's packets may have.
func (t *Table) mtu() int {
	most := t.fabric.MTU()
	if t.secondary != nil {
		most = min(most, t.secondary.MTU())
	}
	return most - fabric.Overhead
}

// Tuple is where other nodes reach this rank, once the way there is open.
func (t *Table) Tuple() fabric.Tuple {
	if tuple := t.way.opened.Load(); tuple != nil {
		return *tuple
	}
	return fabric.Tuple{Kind: fabric.NONE}
}

func (t *Table) remotePeers() []*remotePeer {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Values(t.fars))
}

func (f *remotePeer) notify() {
	select {
	case f.news <- struct{}{}:
	default:
	}
}

// waitNews waits until notify is called or ctx ends. It releases the lock of remote peers while it waits.
func (f *remotePeer) waitNews(ctx context.Context) error {
	f.t.fmu.Unlock()
	defer f.t.fmu.Lock()
	select {
	case <-f.news:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// busy reports whether a sender is at work: one that comes later finds what was decided.
func (f *remotePeer) busy() bool { return len(f.turn) > 0 }

// isSecond reports whether a stream is of the second network, which is the lowest bit of its token.
func isSecond(token peer.Token) bool { return token[len(token)-1]&1 == 1 }
