package ib

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"ibrun/cgo/verbs"
	"ibrun/fabric"
)

// Config says where an endpoint is.
type Config struct {
	Port        string        // "mlx5_0:1", "mlx5_0", or "" for the first active port
	GIDIndex    int           // -1: chosen. On InfiniBand, another makes every packet carry a GRH
	SL          uint8         // service level, 0 to 15
	AskSL       bool          // on InfiniBand, the subnet manager's service level for each peer, and not SL
	PKey        uint16        // partition; 0: the first full membership
	Rank        int           // among those of its node: which of the port's LIDs it publishes
	QKey        uint32        // the same in all endpoints of a job. It is no isolation
	Key         [32]byte      // the same in all endpoints of a job: who has it may open streams
	Spin        bool          // poll without pause: for those who own their cores
	Receives    int           // datagrams that may wait for the sink once there is a peer; 0: 256
	records     Source        // source of path records; only tests set it
	DialTimeout time.Duration // bounds Dial besides its context; 0: 10 s
	PortGrace   time.Duration // how long a port may be down before its streams fail; 0: 10 s
}

// Counters is what an endpoint has done so far.
type Counters struct {
	Sent, SentBytes         uint64 // datagrams that the device took
	Received, ReceivedBytes uint64 // datagrams that the sink got
	Control                 uint64 // datagrams of the fabric's own, sent
	Lost                    uint64 // datagrams that the device did not take
	Strangers               uint64 // control datagrams whose seal was wrong
	Dialled, Accepted       uint64 // streams
	Cold                    uint64 // streams whose queue pair had to be made when it was needed
	Made                    uint64 // queue pairs of streams, those that wait for a stream included
	Pinned                  uint64 // bytes of memory registered now
	Opening                 time.Duration
}

// Fabric is one endpoint.
type Fabric struct {
	cfg   Config
	sink  fabric.Sink
	dev   *device
	tuple fabric.Tuple
	mtu   int
	turn  atomic.Uint32 // of streams: each takes another LID of the port
	out   sender
	in    receiver

	ending context.Context // done once Close is called
	end    context.CancelFunc
	loops  sync.WaitGroup
	once   sync.Once
	closed error // of Close

	mu     sync.Mutex
	engine *engine // nil until the first Offer or Dial
	dials  map[uint64]*dialling

	accepting sync.Mutex // held while the sink takes a stream
	over      bool       // under accepting

	streaming atomic.Bool // there are queue pairs of streams in use: who polls, polls for them alone

	mute     atomic.Bool // the owner does without the port: what is posted is dropped
	failed   atomic.Bool // the device has failed for good
	moving   atomic.Bool // somebody waits for an address to come back
	levels   *levels     // nil: SL is for all peers
	health   health
	counters counters
}

type counters struct {
	sent, sentBytes, received, receivedBytes, control, lost, strangers, dialled, accepted, cold, made atomic.Uint64
	pinned                                                                                            atomic.Int64
	opening                                                                                           time.Duration
}

// Name is "ib".
func (f *Fabric) Name() string { return "ib" }

// Tuple is the port's LID or GID and the number of the endpoint's datagram queue pair.
func (f *Fabric) Tuple() fabric.Tuple { return f.tuple }

// MTU is the most bytes of one datagram.
func (f *Fabric) MTU() int { return f.mtu }

// Port is the port in use, as users write it: "mlx5_0:1".
func (f *Fabric) Port() string { return f.dev.port.String() }

// Counters is what the endpoint has done so far.
func (f *Fabric) Counters() Counters {
	c := &f.counters
	return Counters{
		Sent:          c.sent.Load(),
		SentBytes:     c.sentBytes.Load(),
		Received:      c.received.Load(),
		ReceivedBytes: c.receivedBytes.Load(),

		Control:   c.control.Load(),
		Lost:      c.lost.Load(),
		Strangers: c.strangers.Load(),
		Dialled:   c.dialled.Load(),
		Accepted:  c.accepted.Load(),

		Cold:    c.cold.Load(),
		Made:    c.made.Load(),
		Pinned:  uint64(max(0, c.pinned.Load())),
		Opening: c.opening,
	}
}

// register makes registered memory that is counted.
func (f *Fabric) register(size int, access verbs.Access) (*verbs.MR, error) {
	mr, err := f.dev.pd.Allocate(size, access)
	if err == nil {
		f.counters.pinned.Add(int64(size))
	}
	return mr, err
}

// unregister frees what register made.
func (f *Fabric) unregister(mr *verbs.MR) {
	if mr != nil {
		f.counters.pinned.Add(-int64(len(mr.Bytes())))
		mr.Close()
	}
}

// Counted is what a job's --stats says of InfiniBand.
func (f *Fabric) Counted() fabric.Counts {
	c := f.Counters()
	return fabric.Counts{
		DatagramPairs: 1, StreamPairs: c.Dialled + c.Accepted, SparePairs: c.Made - min(c.Made, c.Dialled+c.Accepted),
		ColdPairs: c.Cold, Strangers: c.Strangers, Pinned: c.Pinned, Opening: c.Opening,
	}
}

// MostStreams is how many streams the device has queue pairs for, those of
// other processes of this node included.
func (f *Fabric) MostStreams() int { return f.dev.limits.MaxQP / 2 }

// closedErr is fabric.ErrClosed after Close.
func (f *Fabric) closedErr() error {
	if f.ending.Err() != nil {
		return fabric.ErrClosed
	}
	return nil
}

// down says that the port is down, or nil.
func (f *Fabric) down() error {
	f.health.mu.Lock()
	defer f.health.mu.Unlock()
	return f.health.down
}

// streams is what streams share, or nil as long as there was none.
func (f *Fabric) streams() *engine {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.engine
}

// sender is the sending half of the datagram queue pair. Slots of its ring are
// used in turn; a completion of one is that of all before it.
type sender struct {
	mu      sync.Mutex
	qp      *verbs.QP
	cq      *verbs.CQ // polled when slots are short; nobody waits for it
	slots   *verbs.MR
	old     *verbs.MR // the small ring, until Close
	size    int       // slots
	posted  uint64
	done    uint64
	grown   bool
	inline  int
	handles map[fabric.Tuple]*handle
	stale   []*handle // of ways that are no more; the device may still need them
	closed  bool
	broken  error // why no datagram can be sent any more
	port    string
	batch   [sendBatch]verbs.Send
	ends    [pollBatch]verbs.Completion
}

// handle is an address handle: a node that this rank sends to.
type handle struct {
	*verbs.AH
	used uint64 // the last send that it is for
}

// receiver is the receiving half.
type receiver struct {
	mu      sync.Mutex // held by whoever polls and posts
	cq      *verbs.CQ
	channel *verbs.Channel
	rings   []ring
	ends    [pollBatch]verbs.Completion
	again   [pollBatch]verbs.Receive
}

// health is what asynchronous events have said of the port.
//
//	up --port down--> down since then --grace--> the endpoint is lost; down --port active--> up
//
// An owner that has another network spares the endpoint: it is not lost, and is looked after until
// it works again (mend.go).
type health struct {
	mu    sync.Mutex
	down  error
	timer *time.Timer
}

// dialling is a Dial that waits for an answer.
type dialling struct {
	answer chan control // capacity 1: further ones repeat the first
}
