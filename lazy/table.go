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

	mu     sync.Mutex             // protects the fields up to broken; a goroutine with both locks locks fmu first
	nears  map[uint32]*localPeer  // peers on this node, by slot
	fars   map[uint32]*remotePeer // peers on other nodes, by slot
	floors map[uint32]uint16      // lowest valid epochs of ranks that were restarted alone, by slot
	closed bool                   // Close has been called
	broken error                  // reason why no fabric works any more; nil while one works

	// fmu protects all remote peers and the fields up to rejects. One lock is enough for all peers, because they
	// share one socket.
	fmu     sync.Mutex
	scratch peer.Scratch
	out     batch                      // sealed datagrams that post will send
	blocks  map[uint32]*fabric.Block   // addresses of the ranks of a node, by node
	asking  map[uint32][]waitingRemote // peers that wait for the block of their node, by node
	live    int                        // number of connected peers in fars
	early   int                        // bytes of messages to peers in fars that are not connected yet
	opening peer.Openings              // limits the handshakes that this rank has started
	ready   []queued                   // answers of the agent that are not passed to a Peer yet, oldest first
	tokens  uint64                     // makeOffer adds 2 and derives the next token of a stream; starts at random
	stopped bool                       // like closed, for code that holds fmu
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

// remotePeer is a peer on another node. Table.fmu protects its fields, except suspicion.
type remotePeer struct {
	t        *Table
	rank     uint32     // slot of the peer
	peer     *peer.Peer // state of the protocol with the peer; comments call it the Peer
	timer    *time.Timer
	turn     chan struct{} // capacity 1: holds a value while a sender is at work
	news     chan struct{} // capacity 1: wakes the sender that is at work
	began    time.Time     // start of the first Send; zero when its latency has been recorded
	used     time.Duration // time of the last use, since Table.began
	early    int           // bytes of messages staged while the pair is not connected
	opens    int           // number of connections that were opened so far
	up       bool          // the pair is connected
	slot     uint64        // ticket of the current handshake in Table.opening; 0 if there is none
	checking bool          // the agent was asked whether the peer runs and has not answered yet

	suspicion suspicion // not protected by Table.fmu

	stream *stream // nil if the pair has no stream

	before    uint64 // Counts.Repeated of the Peer when slot was taken
	secondary secondary
	dialing   context.CancelFunc // cancels the current dial; nil if there is none
	dialToken peer.Token         // token of the last dial
	resumes   uint64             // number of streams that have failed without losing a message
	left      time.Time          // time of the last request to give up the stream of the second network

	bundle bundle

	limbo bool  // the stream has ended, and the agent has not answered yet whether the peer runs
	runs  int   // number of answers that the peer runs since limbo was set
	alarm bool  // if the peer runs, its loss must be reported to a receiver of any rank
	why   error // error with which the stream has ended

	failures int   // number of failures so far; see fail
	err      error // the last failure
	reported int   // value of failures when report last returned one to a sender
	dead     error // reason that the peer can never be reached again, or nil
	departed bool  // the rank has left the job, and a new rank may get its number
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

// way is the state of opening the fabric of a table, which happens once, on first use.
type way struct {
	once   sync.Once
	opened atomic.Pointer[fabric.Tuple] // address of the open fabric; nil before
	err    error                        // error of opening the fabric, which Reach returns
}

// batch contains datagrams to one address that are passed to the fabric together. All have the same size, except the
// last, which may be shorter.
type batch struct {
	b      []byte      // the sealed datagrams, one after the other
	remote *remotePeer // peer to which all of them go
	to     fabric.Tuple
	size   int  // size in bytes of the first datagram
	count  int  // number of datagrams
	closed bool // the last datagram is shorter, so no other one may follow
}

// bundle contains small messages to one peer that are sent in one packet; see peer.AppendBundled. It is sent when it is
// full, when its first message has waited for Config.Bundle, and before any other message to that peer. Table.fmu
// protects it.
type bundle struct {
	body  []byte        // nil if no message is waiting
	count int           // number of messages in body
	since time.Duration // time of the first message, since Table.began
	timer *time.Timer   // nil before its first use
	armed bool          // the timer is running
}

// drop discards the messages of the bundle.
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

// queued is an answer of the agent that has not been passed to its Peer yet.
type queued struct {
	remote *remotePeer
	ev     peer.Event
}

// layout returns the current layout of the job.
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

// floor returns the lowest valid epoch of a rank. The caller holds t.mu.
func (t *Table) floor(rank uint32) uint16 { return max(t.floors[rank], t.cfg.Floor) }

// start returns the number of restarts of a rank.
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

// by returns the fabric that sends to an address.
func (t *Table) by(to fabric.Tuple) fabric.Fabric {
	if t.secondary != nil && to.Kind.Ethernet() {
		return t.secondary
	}
	return t.fabric
}

// mtu returns the maximum size in bytes of a packet body on all fabrics.
func (t *Table) mtu() int {
	most := t.fabric.MTU()
	if t.secondary != nil {
		most = min(most, t.secondary.MTU())
	}
	return most - fabric.Overhead
}

// Tuple returns the address of this rank for other nodes. Its Kind is NONE until the fabric is open.
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

// notify wakes the sender that waits for a value from f.news.
func (f *remotePeer) notify() {
	select {
	case f.news <- struct{}{}:
	default:
	}
}

// waitNews waits until notify is called or ctx ends. It releases Table.fmu while it waits.
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

// busy reports whether a sender is at work. A sender that starts later waits until the caller releases Table.fmu.
func (f *remotePeer) busy() bool { return len(f.turn) > 0 }

// isSecond reports whether the stream with the given token uses the second network. makeOffer sets the lowest bit of
// the token if so.
func isSecond(token peer.Token) bool { return token[len(token)-1]&1 == 1 }
