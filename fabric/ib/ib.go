// Package ib is the InfiniBand and RoCE fabric: one unreliable-datagram queue
// pair per rank for datagrams, and a reliable queue pair for each stream. It
// never waits to send a datagram, and knows nothing of ranks or messages. It opens
// one port of one device.
package ib

import (
	"context"
	"fmt"
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
	records     Source        // of tests: where path records come from
	DialTimeout time.Duration // bounds Dial besides its context; 0: 10 s
	PortGrace   time.Duration // how long a port may be down before its streams fail; 0: 10 s
}

const (
	defaultReceives    = 256
	defaultDialTimeout = 10 * time.Second
	defaultPortGrace   = 10 * time.Second
	// mostBody bounds datagrams: all ports take it, so that peers need not know
	// the path's MTU before they can talk, and a ring of many is small.
	mostBody = 1024
)

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

// Open makes an endpoint and starts to receive. It may take as long as the
// device takes to open, which is 20 to 80 ms on hardware. The error is one
// line, with what to do about it, and does not name the node.
func Open(cfg Config, sink fabric.Sink) (*Fabric, error) {
	began := time.Now()
	w, err := parsePort(cfg.Port)
	if err != nil {
		return nil, fmt.Errorf("ib: %w", err)
	}
	if cfg.SL > 15 {
		return nil, fmt.Errorf("ib: service level %d: 0 to 15", cfg.SL)
	}
	w.gid, w.pkey, w.sl, w.rank, w.path = cfg.GIDIndex, cfg.PKey, cfg.SL, cfg.Rank, cfg.AskSL
	if cfg.Receives == 0 {
		cfg.Receives = defaultReceives
	}
	if cfg.DialTimeout == 0 {
		cfg.DialTimeout = defaultDialTimeout
	}
	if cfg.PortGrace == 0 {
		cfg.PortGrace = defaultPortGrace
	}
	cfg.QKey &= 1<<31 - 1 // the kernel keeps those with the top bit
	f := &Fabric{cfg: cfg, sink: sink, dials: map[uint64]*dialling{}}
	if f.dev, err = openDevice(w); err != nil {
		return nil, fmt.Errorf("ib: %w", err)
	}
	f.ending, f.end = context.WithCancel(context.Background())
	if err := f.askLevels(); err != nil {
		f.end()
		f.dev.release()
		return nil, fmt.Errorf("ib: port %v: %w", &f.dev.port, err)
	}
	f.mtu = min(f.dev.at.mtu.Bytes(), mostBody)
	if err := f.openDatagrams(); err != nil {
		f.closeDatagrams()
		f.dev.release()
		return nil, fmt.Errorf("ib: port %v: %w", &f.dev.port, err)
	}
	f.tuple = f.dev.at.tuple
	f.tuple.Num = f.out.qp.Number()
	f.counters.opening = time.Since(began)
	f.loops.Go(f.receive)
	go f.watch()
	return f, nil
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

// Close ends the endpoint and waits for its goroutines; those of streams that
// live on stay.
func (f *Fabric) Close() error {
	f.once.Do(func() {
		f.end()
		f.accepting.Lock()
		f.over = true
		f.accepting.Unlock()
		f.in.stop()
		f.loops.Wait()
		f.closed = f.closeDatagrams()
		if l := f.streams(); l != nil {
			l.leave()
		}
		if err := f.dev.release(); f.closed == nil {
			f.closed = err
		}
	})
	return f.closed
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
