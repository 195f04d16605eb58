package ib

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"ibrun/cgo/verbs"
	"ibrun/fabric"
)

// Config selects the port of an endpoint and its addresses, keys and limits.
type Config struct {
	Port        string        // "mlx5_0:1", "mlx5_0", or "" for the first active port
	GIDIndex    int           // -1: automatic. On InfiniBand, an index adds a global routing header (GRH) to packets
	SL          uint8         // service level, 0 to 15
	AskSL       bool          // InfiniBand: ask the subnet manager for the service level of each peer; SL is ignored
	PKey        uint16        // partition key; 0: the first one in the port's table with full membership
	Rank        int           // number of the rank on its node; selects which of the port's LIDs it publishes
	QKey        uint32        // the same in all endpoints of a job; it does not keep other programs out
	Key         [32]byte      // secret of the job, which authenticates requests for streams
	Spin        bool          // poll without sleeping, for ranks with cores of their own
	Receives    int           // receive slots for datagrams, added when the first datagram arrives; 0: 256
	records     Source        // source of path records; only tests set it
	DialTimeout time.Duration // limit of one Dial, in addition to its context; 0: 10 s
	PortGrace   time.Duration // how long a port may be down before its streams fail; 0: 10 s
}

// Counters holds the counters of an endpoint since it was opened.
type Counters struct {
	Sent, SentBytes   uint64        // datagrams that the device accepted
	Control           uint64        // control datagrams sent, which open streams (control.go)
	Lost              uint64        // datagrams dropped because the device could not accept them
	Strangers         uint64        // control datagrams received with a wrong seal
	Dialled, Accepted uint64        // streams opened by Dial, and streams passed to the sink
	Cold              uint64        // streams that had to wait for a new queue pair, because none was spare
	Made              uint64        // queue pairs made for streams, spare ones included
	Pinned            uint64        // bytes of memory registered now
	Opening           time.Duration // time that Open took
}

// Fabric represents an endpoint on one InfiniBand or RoCE port: a queue pair for datagrams and any number of streams.
type Fabric struct {
	cfg   Config
	sink  fabric.Sink
	dev   *device
	tuple fabric.Tuple
	mtu   int
	turn  atomic.Uint32 // number of streams so far, which spreads them over the port's LIDs
	out   sender
	in    receiver

	ending context.Context // done once Close is called
	end    context.CancelFunc
	loops  sync.WaitGroup
	once   sync.Once
	closed error // result of Close

	mu     sync.Mutex
	engine *engine                 // nil until the first Offer or Dial
	dials  map[uint64]chan control // by nonce; capacity 1: later answers repeat the first and are dropped

	accepting sync.Mutex // held while the sink takes a stream
	over      bool       // Close has been called; protected by accepting

	streaming atomic.Bool // stream queue pairs are in use; only the engine's goroutine busy-polls then

	mute     atomic.Bool // the owner uses another network for now; Post drops datagrams
	failed   atomic.Bool // the device has failed for good
	moving   atomic.Bool // a goroutine waits for a lost address to come back (moved.go)
	levels   *levels     // service levels by peer; nil if cfg.SL is used for all peers
	health   health
	counters counters
}

type counters struct {
	sent, sentBytes, control, lost, strangers, dialled, accepted, cold, made atomic.Uint64
	pinned                                                                   atomic.Int64
	opening                                                                  time.Duration
}

// Tuple returns the port's LID or GID and the number of the endpoint's datagram queue pair.
func (f *Fabric) Tuple() fabric.Tuple { return f.tuple }

// MTU returns the maximum size of a datagram in bytes.
func (f *Fabric) MTU() int { return f.mtu }

// Port returns the port in use in the notation of --hca: "mlx5_0:1".
func (f *Fabric) Port() string { return f.dev.port.String() }

// Counters returns a snapshot of the endpoint's counters.
func (f *Fabric) Counters() Counters {
	c := &f.counters
	return Counters{
		Sent:      c.sent.Load(),
		SentBytes: c.sentBytes.Load(),
		Control:   c.control.Load(),
		Lost:      c.lost.Load(),
		Strangers: c.strangers.Load(),
		Dialled:   c.dialled.Load(),
		Accepted:  c.accepted.Load(),
		Cold:      c.cold.Load(),
		Made:      c.made.Load(),
		Pinned:    uint64(max(0, c.pinned.Load())),
		Opening:   c.opening,
	}
}

// register allocates registered memory of size bytes and adds it to the counter Pinned.
func (f *Fabric) register(size int, access verbs.Access) (*verbs.MR, error) {
	mr, err := f.dev.pd.Allocate(size, access)
	if err == nil {
		f.counters.pinned.Add(int64(size))
	}
	return mr, err
}

// unregister frees memory that register returned. A nil mr is ignored.
func (f *Fabric) unregister(mr *verbs.MR) {
	if mr != nil {
		f.counters.pinned.Add(-int64(len(mr.Bytes())))
		mr.Close()
	}
}

// ring represents registered memory for receives, divided into slots of equal size.
type ring struct {
	mr    *verbs.MR
	first int // number of its first slot, counted over all rings
	slots int // number of slots
	size  int // size of a slot in bytes
}

// bytes returns the memory of a slot.
func (r *ring) bytes(slot int) []byte { return r.mr.Bytes()[(slot-r.first)*r.size:][:r.size] }

// request returns the work request that posts a slot.
func (r *ring) request(slot int) verbs.Receive {
	return verbs.Receive{ID: uint64(slot), Addr: r.mr.Addr() + uint64((slot-r.first)*r.size), Length: uint32(r.size),
		LKey: r.mr.LKey()}
}

// requests returns the work requests that post all slots.
func (r *ring) requests() []verbs.Receive {
	batch := make([]verbs.Receive, r.slots)
	for i := range batch {
		batch[i] = r.request(r.first + i)
	}
	return batch
}

// rings represents the memory of all receives of one queue. It grows by one ring at a time.
type rings []ring

// slots returns the number of slots of all rings.
func (s rings) slots() int {
	if len(s) == 0 {
		return 0
	}
	last := s[len(s)-1]
	return last.first + last.slots
}

// of returns the ring that contains a slot, or nil if there is none.
func (s rings) of(slot int) *ring {
	for i := range s {
		if slot < s[i].first+s[i].slots {
			return &s[i]
		}
	}
	return nil
}

// add appends a ring of slots of size bytes each, and returns the work requests that post them.
func (s *rings) add(f *Fabric, slots, size int) ([]verbs.Receive, error) {
	mr, err := f.register(slots*size, verbs.LocalWrite)
	if err != nil {
		return nil, err
	}
	r := ring{mr: mr, first: s.slots(), slots: slots, size: size}
	*s = append(*s, r)
	return r.requests(), nil
}

// Counted returns the counts that ibrun --stats reports for InfiniBand.
func (f *Fabric) Counted() fabric.Counts {
	c := f.Counters()
	return fabric.Counts{
		DatagramPairs: 1, StreamPairs: c.Dialled + c.Accepted, SparePairs: c.Made - min(c.Made, c.Dialled+c.Accepted),
		ColdPairs: c.Cold, Strangers: c.Strangers, Pinned: c.Pinned, Opening: c.Opening,
	}
}

// MostStreams returns the maximum number of streams: half the queue pairs of the device. All processes of the node
// share this number.
func (f *Fabric) MostStreams() int { return f.dev.limits.MaxQP / 2 }

// closedErr returns fabric.ErrClosed after Close, and nil before.
func (f *Fabric) closedErr() error {
	if f.ending.Err() != nil {
		return fabric.ErrClosed
	}
	return nil
}

// down returns an error that names the port if it is down, or nil.
func (f *Fabric) down() error {
	f.health.mu.Lock()
	defer f.health.mu.Unlock()
	return f.health.down
}

// streams returns the engine that all streams share, or nil if no Offer or Dial has started it yet.
func (f *Fabric) streams() *engine {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.engine
}

// sender represents the sending half of the datagram queue pair. The slots of its ring are used in turn. The completion
// of a send completes all sends before it.
type sender struct {
	mu      sync.Mutex
	qp      *verbs.QP
	cq      *verbs.CQ // polled when slots are short; no goroutine waits for it
	slots   *verbs.MR
	old     *verbs.MR // first, smaller ring; freed by Close, because the device may still read it
	size    int       // number of slots
	posted  uint64    // sends posted so far
	done    uint64    // sends completed so far
	grown   bool      // growSends was called
	inline  int       // maximum size in bytes of an inline send
	handles map[fabric.Tuple]*handle
	stale   []*handle // handles of old routes, which pending sends may still use
	closed  bool
	broken  error // reason that datagrams cannot be sent, or nil
	port    string
	batch   [sendBatch]verbs.Send
	ends    [pollBatch]verbs.Completion
}

// handle holds the address handle of a node that this rank sends to.
type handle struct {
	*verbs.AH
	used uint64 // number of the last send that uses the handle
}

// receiver represents the receiving half of the datagram queue pair.
type receiver struct {
	mu      sync.Mutex // held by the goroutine that polls cq and posts receives
	cq      *verbs.CQ
	channel *verbs.Channel
	rings   rings
	ends    [pollBatch]verbs.Completion
	again   [pollBatch]verbs.Receive
}

// health holds the state of the port, as reported by asynchronous events.
//
//	up --port error--> down
//	down --port active--> up
//	down --Config.PortGrace has passed--> the endpoint is lost
//
// If the owner can use another network, the endpoint is not lost: a goroutine checks the port until it works again
// (mend.go).
type health struct {
	mu    sync.Mutex
	down  error // nil while the port is up
	timer *time.Timer
}
