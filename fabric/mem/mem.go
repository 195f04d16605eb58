// Package mem is a network inside one process, with faults on demand: loss,
// doubles, delay, reordering and cuts. A seed decides the fate of each datagram
// in the order of the posts of its pair, so that one pair's luck does not
// depend on what others do. It waits on timers and never spins, so that it
// works in virtual time (testing/synctest) as well. It refuses to be a model of
// a real network: bytes cost no time, and a stream loses nothing until it is
// cut.
package mem

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	"ibrun/fabric"
)

// Faults is what a network does to datagrams. Rates are from 0 to 1. The zero
// value delivers everything at once and in order.
type Faults struct {
	Loss    float64
	Dup     float64
	Reorder float64       // part of the datagrams that is held back, by four delays and a millisecond
	Delay   time.Duration // one way, of datagrams, streams and dials
	Jitter  time.Duration // up to so much more, of datagrams only
}

// Counters is what a network has done so far, in datagrams.
type Counters struct {
	Posted    uint64 // taken by Post
	Lost      uint64 // by the rate of loss
	Doubled   uint64 // by the rate of doubles
	Reordered uint64 // by the rate of reordering
	Cut       uint64 // lost to Partition or Isolate, when posted or under way
	Dropped   uint64 // nobody was there, or too many waited for the sink
	Delivered uint64 // given to a sink; a double counts twice
}

// MTU is the most bytes of a datagram.
const MTU = 1472

// Network is a set of endpoints that reach each other.
type Network struct {
	seed uint64
	kind fabric.Kind // of its tuples

	mu       sync.Mutex
	f        Faults
	counters Counters
	opened   uint32
	ends     map[fabric.Tuple]*Fabric
	luck     map[pair]*rand.Rand
	cut      map[pair]bool
	isolated map[fabric.Tuple]bool
	streams  map[*conn]bool // that are not closed
}

// NewInfiniBand makes a network whose addresses are LIDs, so that a rank may have one of the other
// kind beside it.
func NewInfiniBand(seed uint64, f Faults) *Network {
	n := New(seed, f)
	n.kind = fabric.IB
	return n
}

// Port is the link of an endpoint: while it is down the endpoint is parted from all others, and its
// sink hears of that if it is a fabric.Watcher.
func (n *Network) Port(t fabric.Tuple, up bool) {
	n.mu.Lock()
	f := n.ends[t]
	changed := n.isolated[t] == up
	n.mu.Unlock()
	n.Isolate(t, !up)
	if f == nil || !changed {
		return
	}
	if w, ok := f.sink.(fabric.Watcher); ok {
		if up {
			w.Up()
		} else {
			w.Down(errCut)
		}
	}
}

// pair is a direction: from and to.
type pair [2]fabric.Tuple

// New makes a network.
func New(seed uint64, f Faults) *Network {
	return &Network{
		seed: seed, kind: fabric.ETH4, f: f, ends: map[fabric.Tuple]*Fabric{}, luck: map[pair]*rand.Rand{},
		cut:      map[pair]bool{},
		isolated: map[fabric.Tuple]bool{}, streams: map[*conn]bool{},
	}
}

// Open makes an endpoint. No two of a network have the same tuple, also when
// the first is closed.
func (n *Network) Open(sink fabric.Sink) *Fabric {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.opened++
	addr := netip.AddrFrom4([4]byte{10, byte(n.opened >> 16), byte(n.opened >> 8), byte(n.opened)})
	f := &Fabric{net: n, sink: sink, tuple: fabric.Ethernet(netip.AddrPortFrom(addr, 7)), wake: make(chan struct{}, 1)}
	if n.kind == fabric.IB {
		f.tuple = fabric.Tuple{Kind: fabric.IB, LID: uint16(n.opened), Num: 7}
	}
	n.ends[f.tuple] = f
	f.loop.Go(f.deliver)
	return f
}

// Set changes the faults from now on.
func (n *Network) Set(f Faults) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.f = f
}

// Counters is what the network has done so far.
func (n *Network) Counters() Counters {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.counters
}

// Partition parts two endpoints, or joins them again. Their datagrams are
// lost, those under way too; their streams fail and stay so.
func (n *Network) Partition(a, b fabric.Tuple, cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut[pair{a, b}], n.cut[pair{b, a}] = cut, cut
	n.breakStreams()
}

// Isolate parts an endpoint from all others, or joins it again, but for what
// Partition says.
func (n *Network) Isolate(t fabric.Tuple, cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.isolated[t] = cut
	n.breakStreams()
}

func (n *Network) breakStreams() {
	for c := range n.streams {
		if n.parted(c.local, c.remote) {
			c.fail(errCut)
		}
	}
}

func (n *Network) parted(a, b fabric.Tuple) bool {
	return n.cut[pair{a, b}] || a != b && (n.isolated[a] || n.isolated[b])
}

func (n *Network) delay() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.f.Delay
}

// fate says after which times a datagram arrives: never, once or twice. Each
// takes the same five numbers from its pair's generator, whatever the rates.
func (n *Network) fate(p pair) (delays []time.Duration) {
	r := n.luck[p]
	if r == nil {
		r = rand.New(rand.NewPCG(n.seed, number(p[0])<<32|number(p[1])))
		n.luck[p] = r
	}
	lost, twice, late := r.Float64() < n.f.Loss, r.Float64() < n.f.Dup, r.Float64() < n.f.Reorder
	first, second := r.Float64(), r.Float64()
	n.counters.Posted++
	switch {
	case n.parted(p[0], p[1]):
		n.counters.Cut++
		return nil
	case lost:
		n.counters.Lost++
		return nil
	}
	base := n.f.Delay
	if late {
		n.counters.Reordered++
		base += 4*n.f.Delay + time.Millisecond
	}
	delays = append(delays, base+time.Duration(first*float64(n.f.Jitter)))
	if twice {
		n.counters.Doubled++
		delays = append(delays, base+time.Duration(second*float64(n.f.Jitter)))
	}
	return delays
}

func number(t fabric.Tuple) uint64 { return uint64(binary.BigEndian.Uint32(t.Addr[:])) + uint64(t.LID) }
