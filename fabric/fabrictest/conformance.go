// Package fabrictest is the conformance suite for fabrics: what package fabric promises, as
// tests that every implementation runs. It knows no implementation, and asks
// for nothing that the contract does not promise.
package fabrictest

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/fabric"
)

// Opener makes an endpoint; all of one test reach each other.
type Opener func(t *testing.T, sink fabric.Sink) fabric.Fabric

// Options says what a fabric under test is, and what may be missing of it.
type Options struct {
	Driver bool // it is a fabric.Driver, and held to what that promises
	Lossy  bool // datagrams may be lost, doubled or overtaken even if few are under way
	Flood  int  // datagrams of the test that sends most; 0: 100,000
}

// patience bounds every wait of these tests. It is for busy machines: nothing
// takes so long unless it hangs.
const patience = 3 * time.Minute

// promise is one part of the suite.
type promise struct {
	name string
	hold func(*testing.T, Opener, Options)
}

// Run runs a fabric through the conformance suite.
func Run(t *testing.T, open Opener, o Options) {
	promises := []promise{
		{"datagrams are whole", whole},
		{"too long", tooLong},
		{"many senders", manySenders},
		{"nobody there", nobody},
		{"flood", flood},
		{"answer", answer},
		{"streams are exact", streams},
		{"close lets bytes arrive", closing},
		{"close ends a read", closeEndsRead},
		{"streams outlive endpoints", outlive},
		{"many dials", dials},
		{"dial fails", dialFails},
		{"dial and context", dialContext},
		{"closed", closed},
		{"close waits for the sink", closeWaits},
		{"a driver or none", driverOrNone},
		{"nothing is left", nothingLeft},
		{"another endpoint differs", differs},
	}
	if o.Driver {
		promises = append(promises, promise{"driven by many", drivenByMany}, promise{"a drive ends", driveEnds},
			promise{"close waits for a driver", closeWaitsForDriver})
	}
	for _, p := range promises {
		t.Run(p.name, func(t *testing.T) { p.hold(t, open, o) })
	}
}

// Box is a sink that keeps what arrives.
type Box struct {
	busy       atomic.Bool
	accepted   chan fabric.Stream
	arrived    chan struct{} // capacity 1
	onDatagram func(from fabric.Tuple, b []byte)

	mu      sync.Mutex
	got     map[string]int
	overlap bool
}

// NewBox makes an empty one.
func NewBox() *Box {
	return &Box{accepted: make(chan fabric.Stream, 256), arrived: make(chan struct{}, 1), got: map[string]int{}}
}

// Datagram implements fabric.Sink.
func (x *Box) Datagram(from fabric.Tuple, b []byte) {
	alone := x.busy.CompareAndSwap(false, true)
	if x.onDatagram != nil {
		x.onDatagram(from, b)
	}
	x.mu.Lock()
	x.got[string(b)]++
	x.overlap = x.overlap || !alone
	x.mu.Unlock()
	select {
	case x.arrived <- struct{}{}:
	default:
	}
	clear(b) // the fabric may use its buffer again, and must not need what was in it
	x.busy.Store(false)
}

// Accepted implements fabric.Sink.
func (x *Box) Accepted(s fabric.Stream) { x.accepted <- s }

// has waits until something holds of what has arrived.
func (x *Box) has(what func(got map[string]int) bool, within time.Duration) bool {
	late := time.After(within)
	for {
		x.mu.Lock()
		ok := what(x.got)
		x.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-x.arrived:
		case <-late:
			return false
		}
	}
}

// Has waits for one datagram.
func (x *Box) Has(b string) bool {
	return x.has(func(got map[string]int) bool { return got[b] > 0 }, patience)
}

// onlyOf checks that nothing has arrived but these, and one at a time.
func (x *Box) onlyOf(t *testing.T, sent map[string]bool) {
	t.Helper()
	x.mu.Lock()
	defer x.mu.Unlock()
	for b := range x.got {
		require.True(t, sent[b], "%d bytes arrived that nobody sent: %.40x", len(b), b)
	}
	require.False(t, x.overlap, "the sink gets one datagram at a time")
}

// Stream waits for the next stream that was accepted.
func (x *Box) Stream(t *testing.T) fabric.Stream {
	t.Helper()
	return soon(t, x.accepted, "no stream was accepted")
}

// soon is what comes out of a channel.
func soon[T any](t *testing.T, from <-chan T, failing string) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(patience):
		require.FailNow(t, failing)
	}
	return v
}

// finish waits for goroutines, which must not hang.
func finish(t *testing.T, all *sync.WaitGroup, failing string) {
	t.Helper()
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	soon(t, done, failing)
}

func endpoint(t *testing.T, open Opener) (fabric.Fabric, *Box) {
	t.Helper()
	x := NewBox()
	f := open(t, x)
	t.Cleanup(func() { f.Close() })
	return f, x
}

// pattern is a datagram of its own for each size and n, as far as it is long
// enough to tell.
func pattern(size, n int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(i*7 + i>>8 + n>>(i%4*8))
	}
	return b
}

// again is how long a lossy fabric is given before the same is sent again.
const again = 20 * time.Millisecond

// send posts until it has arrived, as often as a lossy fabric needs.
func send(t *testing.T, f fabric.Fabric, to fabric.Tuple, b []byte, x *Box, lossy bool) {
	t.Helper()
	within, tries := patience, 1
	if lossy {
		within, tries = again, int(patience/again)
	}
	for range tries {
		require.NoError(t, f.Post(to, b))
		if x.has(func(got map[string]int) bool { return got[string(b)] > 0 }, within) {
			return
		}
	}
	require.FailNow(t, "lost", "%d bytes did not arrive", len(b))
}
