package mem

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sort"
	"sync"
	"time"

	"ibrun/fabric"
)

// Fabric is one endpoint.
type Fabric struct {
	net   *Network
	tuple fabric.Tuple
	sink  fabric.Sink
	wake  chan struct{} // capacity 1: something is due earlier than was known
	loop  sync.WaitGroup

	// The network's lock holds these.
	closed  bool
	offered bool
	coming  []*arrival // sorted by time of delivery
}

// arrival is a datagram or a stream on its way to an endpoint.
type arrival struct {
	at     time.Time
	from   fabric.Tuple
	b      []byte
	stream *conn
}

// most is the number of datagrams that may be under way to an endpoint or wait
// for its sink; more are lost, as in a socket's buffer.
const most = 16 << 10

// Tuple is a made-up address.
func (f *Fabric) Tuple() fabric.Tuple { return f.tuple }

// MTU is the most bytes of a datagram.
func (f *Fabric) MTU() int { return MTU }

// Post sends a datagram as the faults of the network allow.
func (f *Fabric) Post(to fabric.Tuple, b []byte) error {
	n := f.net
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case f.closed:
		return fabric.ErrClosed
	case len(b) > MTU:
		return fabric.ErrTooLong
	case to.Kind != n.kind:
		return fmt.Errorf("mem: %v is no address of this network", to)
	}
	for _, d := range n.fate(pair{f.tuple, to}) {
		if remote := n.ends[to]; remote == nil || len(remote.coming) >= most {
			n.counters.Dropped++
		} else {
			remote.push(&arrival{at: time.Now().Add(d), from: f.tuple, b: bytes.Clone(b)})
		}
	}
	return nil
}

// PostAll sends the datagrams one by one.
func (f *Fabric) PostAll(to fabric.Tuple, b []byte, size int) error {
	for part := range slices.Chunk(b, size) {
		if err := f.Post(to, part); err != nil {
			return err
		}
	}
	return nil
}

// push needs the network's lock.
func (f *Fabric) push(a *arrival) {
	at := sort.Search(len(f.coming), func(i int) bool { return f.coming[i].at.After(a.at) })
	f.coming = slices.Insert(f.coming, at, a)
	if at == 0 {
		f.poke()
	}
}

func (f *Fabric) poke() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// deliver is the goroutine that calls the sink, and nobody else does.
func (f *Fabric) deliver() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		a, wait, over := f.next()
		switch {
		case over:
			return
		case a != nil && a.stream != nil:
			f.sink.Accepted(a.stream)
		case a != nil:
			f.sink.Datagram(a.from, a.b)
		case wait > 0:
			timer.Reset(wait)
			select {
			case <-f.wake:
			case <-timer.C:
			}
		default:
			<-f.wake
		}
	}
}

// next is what is due now, or how long it takes until something is; neither:
// nothing is on its way.
func (f *Fabric) next() (a *arrival, wait time.Duration, over bool) {
	n := f.net
	n.mu.Lock()
	defer n.mu.Unlock()
	for !f.closed && len(f.coming) > 0 {
		if wait = time.Until(f.coming[0].at); wait > 0 {
			return nil, wait, false
		}
		a, f.coming[0] = f.coming[0], nil
		f.coming = f.coming[1:]
		switch {
		case a.stream != nil:
			return a, 0, false
		case n.parted(a.from, f.tuple):
			n.counters.Cut++
		default:
			n.counters.Delivered++
			return a, 0, false
		}
	}
	return nil, 0, f.closed
}

// offerLen is the length of an offer, which says nothing.
const offerLen = 1

// Offer lets others dial.
func (f *Fabric) Offer() ([]byte, error) {
	f.net.mu.Lock()
	defer f.net.mu.Unlock()
	if f.closed {
		return nil, fabric.ErrClosed
	}
	f.offered = true
	return make([]byte, offerLen), nil
}

// Dial makes a stream after one round trip, if the endpoint has offered one
// and can be reached.
func (f *Fabric) Dial(ctx context.Context, to fabric.Tuple, offer []byte) (fabric.Stream, error) {
	if d := f.net.delay(); d > 0 {
		timer := time.NewTimer(2 * d)
		defer timer.Stop()
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
	}
	n := f.net
	n.mu.Lock()
	defer n.mu.Unlock()
	remote := n.ends[to]
	switch {
	case f.closed:
		return nil, fabric.ErrClosed
	case ctx.Err() != nil:
		return nil, fmt.Errorf("mem: dial %v: %w", to, context.Cause(ctx))
	case len(offer) != offerLen:
		return nil, fmt.Errorf("mem: dial %v: an offer of %d bytes is none of this network", to, len(offer))
	case remote == nil || !remote.offered || n.parted(f.tuple, to):
		return nil, fmt.Errorf("mem: dial %v: nobody answers", to)
	}
	ours, theirs := n.newStream(f.tuple, to)
	remote.push(&arrival{at: time.Now(), stream: theirs})
	return ours, nil
}

// Close ends the endpoint and waits for the sink.
func (f *Fabric) Close() error {
	f.net.mu.Lock()
	delete(f.net.ends, f.tuple)
	f.closed = true
	for _, a := range f.coming {
		if a.stream != nil { // nobody will take it
			delete(f.net.streams, a.stream)
			a.stream.fail(errPeerClosed)
		}
	}
	f.coming = nil
	f.net.mu.Unlock()
	f.poke()
	f.loop.Wait()
	return nil
}
