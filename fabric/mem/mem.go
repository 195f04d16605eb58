// Package mem is a network inside one process, with faults on demand: loss,
// doubles, delay, reordering and cuts. A seed decides each fault in the order
// of the datagrams of a pair, so that one pair's luck does not depend on what
// others do. It runs on timers and sleeps nowhere, so that it works in virtual
// time (testing/synctest) as well.
package mem

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
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
	Reorder float64       // part of the datagrams that is held back by four delays
	Delay   time.Duration // of each datagram, one way
	Jitter  time.Duration // up to so much more
}

// MTU is the most bytes of a datagram.
const MTU = 1472

// Network is a set of endpoints that reach each other.
type Network struct {
	seed uint64

	mu    sync.Mutex
	f     Faults
	ends  map[fabric.Tuple]*Fabric
	next  uint32
	pairs map[[2]fabric.Tuple]*rand.Rand
	cut   map[[2]fabric.Tuple]bool
}

// New makes a network.
func New(seed uint64, f Faults) *Network {
	return &Network{
		seed: seed, f: f, ends: map[fabric.Tuple]*Fabric{},
		pairs: map[[2]fabric.Tuple]*rand.Rand{}, cut: map[[2]fabric.Tuple]bool{},
	}
}

// Set changes the faults from now on.
func (n *Network) Set(f Faults) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.f = f
}

// Cut parts two endpoints, or joins them again.
func (n *Network) Cut(a, b fabric.Tuple, cut bool) {
	n.mu.Lock()
	n.cut[[2]fabric.Tuple{a, b}], n.cut[[2]fabric.Tuple{b, a}] = cut, cut
	var over []*pipe
	for _, e := range []*Fabric{n.ends[a], n.ends[b]} {
		if cut && e != nil {
			over = append(over, e.streams...)
		}
	}
	n.mu.Unlock()
	for _, p := range over {
		if p.far == a || p.far == b {
			p.Conn.Close()
		}
	}
}

// Fabric is one endpoint.
type Fabric struct {
	net     *Network
	tuple   fabric.Tuple
	sink    fabric.Sink
	streams []*pipe // the network's lock holds them

	mu     sync.Mutex
	closed bool
	queue  [][]byte
	from   []fabric.Tuple
	wake   chan struct{} // capacity 1
	loops  sync.WaitGroup
}

// pipe is one end of a stream.
type pipe struct {
	net.Conn
	far fabric.Tuple
}

// Open makes an endpoint.
func (n *Network) Open(sink fabric.Sink) *Fabric {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.next++
	addr := netip.AddrFrom4([4]byte{10, byte(n.next >> 16), byte(n.next >> 8), byte(n.next)})
	f := &Fabric{net: n, sink: sink, tuple: fabric.Ethernet(netip.AddrPortFrom(addr, 7)), wake: make(chan struct{}, 1)}
	n.ends[f.tuple] = f
	f.loops.Go(f.deliver)
	return f
}

// Name is "mem".
func (f *Fabric) Name() string { return "mem" }

// Tuple is a made-up address.
func (f *Fabric) Tuple() fabric.Tuple { return f.tuple }

// MTU is the most bytes of a datagram.
func (f *Fabric) MTU() int { return MTU }

// Post sends a datagram as the faults of the network allow.
func (f *Fabric) Post(to fabric.Tuple, b []byte) error {
	f.mu.Lock()
	closed := f.closed
	f.mu.Unlock()
	if closed {
		return fabric.ErrClosed
	}
	if len(b) > MTU {
		return fabric.ErrTooLong
	}
	for _, d := range f.net.fate(f.tuple, to) {
		m := append([]byte(nil), b...)
		if d == 0 {
			f.net.arrive(f.tuple, to, m)
		} else {
			time.AfterFunc(d, func() { f.net.arrive(f.tuple, to, m) })
		}
	}
	return nil
}

// fate says after which times a datagram arrives: never, once or twice.
func (n *Network) fate(from, to fabric.Tuple) (delays []time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	key := [2]fabric.Tuple{from, to}
	r := n.pairs[key]
	if r == nil {
		a, b := from.Append(nil), to.Append(nil)
		r = rand.New(rand.NewPCG(n.seed, uint64(binary.BigEndian.Uint32(a[1:]))<<32|uint64(binary.BigEndian.Uint32(b[1:]))))
		n.pairs[key] = r
	}
	copies := 1
	lost, twice, late := r.Float64() < n.f.Loss, r.Float64() < n.f.Dup, r.Float64() < n.f.Reorder
	if twice {
		copies = 2
	}
	for range copies {
		d := n.f.Delay + time.Duration(r.Float64()*float64(n.f.Jitter))
		if late {
			d += 4*n.f.Delay + time.Millisecond
		}
		delays = append(delays, d)
	}
	if lost || n.cut[key] {
		return nil
	}
	return delays
}

// queueLimit is the number of datagrams that wait for a sink; more are lost,
// as in a socket's buffer.
const queueLimit = 4096

func (n *Network) arrive(from, to fabric.Tuple, b []byte) {
	n.mu.Lock()
	f := n.ends[to]
	n.mu.Unlock()
	if f == nil {
		return
	}
	f.mu.Lock()
	if !f.closed && len(f.queue) < queueLimit {
		f.queue, f.from = append(f.queue, b), append(f.from, from)
	}
	f.mu.Unlock()
	f.poke()
}

func (f *Fabric) poke() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// deliver is the goroutine that hands datagrams to the sink.
func (f *Fabric) deliver() {
	for {
		f.mu.Lock()
		queue, from, closed := f.queue, f.from, f.closed
		f.queue, f.from = nil, nil
		f.mu.Unlock()
		if closed {
			return
		}
		for i, b := range queue {
			f.sink.Datagram(from[i], b)
		}
		if len(queue) == 0 {
			<-f.wake
		}
	}
}

// Offer needs nothing but the tuple.
func (f *Fabric) Offer() ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, fabric.ErrClosed
	}
	return []byte{1}, nil
}

// Dial makes a stream, if the endpoint is there and not cut off.
func (f *Fabric) Dial(ctx context.Context, to fabric.Tuple, offer []byte) (fabric.Stream, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f.mu.Lock()
	closed := f.closed
	f.mu.Unlock()
	if closed {
		return nil, fabric.ErrClosed
	}
	f.net.mu.Lock()
	far := f.net.ends[to]
	cut := f.net.cut[[2]fabric.Tuple{f.tuple, to}]
	f.net.mu.Unlock()
	if far == nil || cut || len(offer) != 1 {
		return nil, fmt.Errorf("mem: %v does not answer", to)
	}
	a, b := buffered()
	ours, theirs := &pipe{a, to}, &pipe{b, f.tuple}
	f.net.mu.Lock()
	f.streams, far.streams = append(f.streams, ours), append(far.streams, theirs)
	f.net.mu.Unlock()
	far.sink.Accepted(theirs)
	return ours, nil
}

// Close ends the endpoint.
func (f *Fabric) Close() error {
	f.net.mu.Lock()
	delete(f.net.ends, f.tuple)
	f.net.mu.Unlock()
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.poke()
	f.loops.Wait()
	return nil
}

// buffered makes two ends of a stream that holds some bytes in each direction,
// unlike net.Pipe, so that writers do not wait for readers.
func buffered() (net.Conn, net.Conn) {
	ab, ba := newFlow(), newFlow()
	return &conn{r: ba, w: ab}, &conn{r: ab, w: ba}
}

// flowLimit is what one direction of a stream holds, in bytes.
const flowLimit = 64 << 10

// flow is one direction of a stream.
type flow struct {
	mu     sync.Mutex
	moved  sync.Cond
	b      []byte
	closed bool // by the writer: what is left can be read
	broken bool // by the reader: writing fails
}

func newFlow() *flow {
	f := &flow{}
	f.moved.L = &f.mu
	return f
}

func (f *flow) read(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.b) == 0 && !f.closed && !f.broken {
		f.moved.Wait()
	}
	if f.broken {
		return 0, net.ErrClosed
	}
	if len(f.b) == 0 {
		return 0, io.EOF
	}
	n := copy(p, f.b)
	f.b = f.b[n:]
	f.moved.Broadcast()
	return n, nil
}

var errBroken = errors.New("mem: the other side is closed")

func (f *flow) write(p []byte) (n int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for n < len(p) {
		for len(f.b) >= flowLimit && !f.closed && !f.broken {
			f.moved.Wait()
		}
		if f.closed {
			return n, net.ErrClosed
		}
		if f.broken {
			return n, errBroken
		}
		k := min(len(p)-n, flowLimit-len(f.b))
		f.b = append(f.b, p[n:n+k]...)
		n += k
		f.moved.Broadcast()
	}
	return n, nil
}

func (f *flow) end(closed, broken bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed, f.broken = f.closed || closed, f.broken || broken
	f.moved.Broadcast()
}

// conn is one end. Deadlines are not kept: nothing here waits for a network.
type conn struct{ r, w *flow }

func (c *conn) Read(p []byte) (int, error)  { return c.r.read(p) }
func (c *conn) Write(p []byte) (int, error) { return c.w.write(p) }
func (c *conn) Close() error {
	c.w.end(true, false)
	c.r.end(false, true)
	return nil
}
func (c *conn) LocalAddr() net.Addr              { return &net.UnixAddr{Name: "mem"} }
func (c *conn) RemoteAddr() net.Addr             { return &net.UnixAddr{Name: "mem"} }
func (c *conn) SetDeadline(time.Time) error      { return nil }
func (c *conn) SetReadDeadline(time.Time) error  { return nil }
func (c *conn) SetWriteDeadline(time.Time) error { return nil }
