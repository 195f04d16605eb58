// Package fabrictest is the law for fabrics: what package fabric promises,
// as tests that every implementation runs.
package fabrictest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/fabric"
)

// Opener makes an endpoint; all of one test reach each other.
type Opener func(t *testing.T, sink fabric.Sink) fabric.Fabric

// Options says what may be missing of a fabric under test.
type Options struct {
	Lossy bool // datagrams may be lost, doubled or overtaken
}

// patience bounds every wait of these tests.
const patience = 10 * time.Second

// Run holds a fabric against the law.
func Run(t *testing.T, open Opener, o Options) {
	for name, law := range map[string]func(*testing.T, Opener, Options){
		"datagrams are whole":      whole,
		"many senders":             manySenders,
		"nobody there":             nobody,
		"flood":                    flood,
		"answer":                   answer,
		"streams are exact":        streams,
		"close lets bytes arrive":  closing,
		"many dials":               dials,
		"dial and context":         dialFails,
		"close":                    closed,
		"nothing is left":          nothingLeft,
		"another endpoint differs": differs,
	} {
		t.Run(name, func(t *testing.T) { law(t, open, o) })
	}
}

// Box is a sink that keeps what arrives.
type Box struct {
	mu       sync.Mutex
	busy     atomic.Bool
	overlap  atomic.Bool
	got      [][]byte
	from     []fabric.Tuple
	accepted chan fabric.Stream
	seen     func(from fabric.Tuple, b []byte)
}

// NewBox makes an empty one.
func NewBox() *Box { return &Box{accepted: make(chan fabric.Stream, 256)} }

// Datagram implements fabric.Sink.
func (x *Box) Datagram(from fabric.Tuple, b []byte) {
	if !x.busy.CompareAndSwap(false, true) {
		x.overlap.Store(true)
	}
	if x.seen != nil {
		x.seen(from, b)
	}
	x.mu.Lock()
	x.got, x.from = append(x.got, bytes.Clone(b)), append(x.from, from)
	x.mu.Unlock()
	clear(b) // the fabric may use its buffer again, and must not need it
	x.busy.Store(false)
}

// Accepted implements fabric.Sink.
func (x *Box) Accepted(s fabric.Stream) { x.accepted <- s }

func (x *Box) count() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.got)
}

func (x *Box) stream(t *testing.T) fabric.Stream {
	select {
	case s := <-x.accepted:
		return s
	case <-time.After(patience):
		require.FailNow(t, "no stream was accepted")
		return nil
	}
}

func endpoint(t *testing.T, open Opener) (fabric.Fabric, *Box) {
	x := NewBox()
	f := open(t, x)
	t.Cleanup(func() { f.Close() })
	return f, x
}

// pattern is a datagram that shows any change, and carries its own digest.
func pattern(size int, n uint32) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(uint32(i)*7 + n)
	}
	if size >= 36 {
		binary.BigEndian.PutUint32(b, n)
		sum := sha256.Sum256(b[36:])
		copy(b[4:], sum[:])
	}
	return b
}

func intact(b []byte) bool {
	sum := sha256.Sum256(b[36:])
	return bytes.Equal(sum[:], b[4:36])
}

// send posts until it has arrived, as often as a lossy link needs.
func send(t *testing.T, f fabric.Fabric, to fabric.Tuple, b []byte, x *Box, o Options) {
	before := x.count()
	for try := 0; ; try++ {
		require.NoError(t, f.Post(to, b))
		arrived := func() bool { return x.count() > before }
		if !o.Lossy {
			require.Eventually(t, arrived, patience, 100*time.Microsecond)
			return
		}
		until := time.Now().Add(20 * time.Millisecond)
		for time.Now().Before(until) && !arrived() {
			runtime.Gosched()
		}
		if arrived() {
			return
		}
		require.Less(t, try, 1000)
	}
}

func whole(t *testing.T, open Opener, o Options) {
	a, _ := endpoint(t, open)
	b, x := endpoint(t, open)
	require.GreaterOrEqual(t, a.MTU(), 512)
	sizes := []int{1, 2, 35, 36, 37, 511, 512, a.MTU() - 1, a.MTU()}
	for n, size := range sizes {
		send(t, a, b.Tuple(), pattern(size, uint32(n)), x, o)
	}
	require.ErrorIs(t, a.Post(b.Tuple(), make([]byte, a.MTU()+1)), fabric.ErrTooLong)
	x.mu.Lock()
	defer x.mu.Unlock()
	seen := map[int]bool{}
	for _, got := range x.got {
		seen[len(got)] = true
		if len(got) >= 36 {
			require.True(t, intact(got))
		}
	}
	require.Len(t, seen, len(sizes))
}

func manySenders(t *testing.T, open Opener, o Options) {
	a, _ := endpoint(t, open)
	b, x := endpoint(t, open)
	const senders, each = 8, 50
	var all sync.WaitGroup
	for s := range senders {
		all.Go(func() {
			buf := make([]byte, 400)
			for i := range each {
				copy(buf, pattern(400, uint32(s*each+i)))
				if err := a.Post(b.Tuple(), buf); err != nil {
					t.Error(err)
				}
				clear(buf) // it is ours again
			}
		})
	}
	all.Wait()
	if !o.Lossy {
		require.Eventually(t, func() bool { return x.count() == senders*each }, patience, time.Millisecond)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, got := range x.got {
		require.True(t, intact(got))
	}
	require.False(t, x.overlap.Load(), "the sink gets one datagram at a time")
}

func nobody(t *testing.T, open Opener, o Options) {
	a, _ := endpoint(t, open)
	b, x := endpoint(t, open)
	gone := open(t, NewBox())
	where := gone.Tuple()
	require.NoError(t, gone.Close())
	for range 100 {
		require.NoError(t, a.Post(where, []byte("hello")))
	}
	send(t, a, b.Tuple(), pattern(100, 1), x, o)
}

func flood(t *testing.T, open Opener, o Options) {
	a, _ := endpoint(t, open)
	b, x := endpoint(t, open)
	m := pattern(64, 9)
	for range 100_000 {
		require.NoError(t, a.Post(b.Tuple(), m))
	}
	send(t, a, b.Tuple(), m, x, Options{Lossy: true})
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, got := range x.got {
		require.True(t, intact(got))
	}
}

func answer(t *testing.T, open Opener, o Options) {
	a, xa := endpoint(t, open)
	xb := NewBox()
	var b fabric.Fabric
	var ready sync.WaitGroup
	ready.Add(1)
	xb.seen = func(from fabric.Tuple, m []byte) {
		ready.Wait()
		_ = b.Post(from, m)
	}
	b = open(t, xb)
	ready.Done()
	t.Cleanup(func() { b.Close() })
	before := xa.count()
	require.Eventually(t, func() bool {
		_ = a.Post(b.Tuple(), pattern(40, 3))
		return xa.count() > before
	}, patience, time.Millisecond)
}

func dial(t *testing.T, a, b fabric.Fabric, x *Box) (fabric.Stream, fabric.Stream) {
	offer, err := b.Offer()
	require.NoError(t, err)
	require.NotEmpty(t, offer)
	require.LessOrEqual(t, len(offer), 64)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, err := a.Dial(ctx, b.Tuple(), offer)
	require.NoError(t, err)
	return s, x.stream(t)
}

// noise is n bytes that do not repeat.
func noise(n int, seed byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*i>>5) ^ byte(i>>8) ^ seed
	}
	return b
}

func streams(t *testing.T, open Opener, _ Options) {
	a, _ := endpoint(t, open)
	b, x := endpoint(t, open)
	sa, sb := dial(t, a, b, x)
	var all sync.WaitGroup
	for i, pair := range [][2]fabric.Stream{{sa, sb}, {sb, sa}} {
		want := noise(10<<20, byte(i))
		all.Go(func() {
			if _, err := pair[0].Write(want); err != nil {
				t.Error(err)
			}
		})
		all.Go(func() {
			got := make([]byte, len(want))
			if _, err := io.ReadFull(pair[1], got); err != nil || !bytes.Equal(got, want) {
				t.Errorf("10 MB did not arrive as they were sent: %v", err)
			}
		})
	}
	all.Wait()
	sa.Close()
	sb.Close()
}

func closing(t *testing.T, open Opener, _ Options) {
	a, _ := endpoint(t, open)
	b, x := endpoint(t, open)
	sa, sb := dial(t, a, b, x)
	_, err := sa.Write(noise(30_000, 1))
	require.NoError(t, err)
	require.NoError(t, sa.Close())
	got, err := io.ReadAll(sb)
	require.NoError(t, err)
	require.Equal(t, noise(30_000, 1), got)
	sb.Close()
}

func dials(t *testing.T, open Opener, _ Options) {
	b, x := endpoint(t, open)
	a, _ := endpoint(t, open)
	offer, err := b.Offer()
	require.NoError(t, err)
	const n = 50
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			s, err := a.Dial(t.Context(), b.Tuple(), offer)
			if err != nil {
				t.Error(err)
				return
			}
			_, err = s.Write([]byte{byte(i)})
			if err != nil {
				t.Error(err)
			}
			s.Close()
		})
	}
	seen := map[byte]bool{}
	for range n {
		s := x.stream(t)
		got, err := io.ReadAll(s)
		require.NoError(t, err)
		require.Len(t, got, 1)
		seen[got[0]] = true
		s.Close()
	}
	all.Wait()
	require.Len(t, seen, n)
}

func dialFails(t *testing.T, open Opener, _ Options) {
	a, _ := endpoint(t, open)
	b := open(t, NewBox())
	offer, err := b.Offer()
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = a.Dial(ctx, b.Tuple(), offer)
	require.Error(t, err)
	_, err = a.Dial(t.Context(), b.Tuple(), []byte("not an offer of any fabric"))
	require.Error(t, err)
	require.NoError(t, b.Close())
	began := time.Now()
	_, err = a.Dial(t.Context(), b.Tuple(), offer)
	require.Error(t, err)
	require.Less(t, time.Since(began), patience)
}

func closed(t *testing.T, open Opener, _ Options) {
	b, _ := endpoint(t, open)
	inside := make(chan struct{}, 1024)
	var over atomic.Bool
	x := NewBox()
	x.seen = func(fabric.Tuple, []byte) {
		select {
		case inside <- struct{}{}:
		default:
		}
		if over.Load() {
			t.Error("the sink was called after Close")
		}
	}
	a := open(t, x)
	for range 200 {
		require.NoError(t, b.Post(a.Tuple(), []byte("x")))
	}
	require.NoError(t, a.Close())
	over.Store(true)
	require.NoError(t, a.Close(), "twice does no harm")
	require.ErrorIs(t, a.Post(b.Tuple(), []byte("x")), fabric.ErrClosed)
	_, err := a.Offer()
	require.ErrorIs(t, err, fabric.ErrClosed)
	_, err = a.Dial(t.Context(), b.Tuple(), []byte{1, 2})
	require.ErrorIs(t, err, fabric.ErrClosed)
	for range 10 {
		require.NoError(t, b.Post(a.Tuple(), []byte("y")))
	}
}

func nothingLeft(t *testing.T, open Opener, _ Options) {
	before := runtime.NumGoroutine()
	for range 5 {
		x := NewBox()
		a, b := open(t, NewBox()), open(t, x)
		sa, sb := dial(t, a, b, x)
		require.NoError(t, a.Post(b.Tuple(), []byte("x")))
		sa.Close()
		sb.Close()
		require.NoError(t, a.Close())
		require.NoError(t, b.Close())
	}
	for until := time.Now().Add(patience); runtime.NumGoroutine() > before; runtime.Gosched() {
		require.True(t, time.Now().Before(until), "goroutines are left behind")
	}
}

func differs(t *testing.T, open Opener, _ Options) {
	seen := map[fabric.Tuple]bool{}
	for range 10 {
		f, _ := endpoint(t, open)
		require.False(t, seen[f.Tuple()], "two endpoints have one tuple")
		require.NotEmpty(t, f.Name())
		seen[f.Tuple()] = true
	}
}
