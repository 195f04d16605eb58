package fabrictest

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/fabric"
)

func closed(t *testing.T, open Opener, _ Options) {
	b, _ := endpoint(t, open)
	var over atomic.Bool
	x := NewBox()
	x.onDatagram = func(fabric.Tuple, []byte) {
		if over.Load() {
			t.Error("the sink was called after Close")
		}
	}
	a := open(t, x)
	offer, err := b.Offer()
	require.NoError(t, err)
	for range 200 {
		require.NoError(t, b.Post(a.Tuple(), []byte("x")))
	}
	require.NoError(t, a.Close())
	over.Store(true)
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			if err := a.Close(); err != nil {
				t.Errorf("a further Close: %v", err)
			}
		})
	}
	finish(t, &all, "a further Close hangs")
	require.ErrorIs(t, a.Post(b.Tuple(), []byte("x")), fabric.ErrClosed)
	_, err = a.Offer()
	require.ErrorIs(t, err, fabric.ErrClosed)
	_, err = a.Dial(t.Context(), b.Tuple(), offer)
	require.ErrorIs(t, err, fabric.ErrClosed)
	for range 10 {
		require.NoError(t, b.Post(a.Tuple(), []byte("y")))
	}
}

func closeWaits(t *testing.T, open Opener, _ Options) {
	b, _ := endpoint(t, open)
	inside, stuck := make(chan struct{}, 1), make(chan struct{})
	release := sync.OnceFunc(func() { close(stuck) })
	x := NewBox()
	x.onDatagram = func(fabric.Tuple, []byte) {
		select {
		case inside <- struct{}{}:
		default:
		}
		<-stuck
	}
	a := open(t, x)
	t.Cleanup(func() { release(); a.Close() })
	for range 50 {
		require.NoError(t, b.Post(a.Tuple(), []byte("x")))
	}
	soon(t, inside, "no datagram")
	closesAfter(t, a, release)
}

// closesAfter closes an endpoint whose sink is held up, which Close must wait
// for, and lets the sink go.
func closesAfter(t *testing.T, f fabric.Fabric, release func()) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f.Close() }()
	select {
	case <-done:
		require.FailNow(t, "Close returned while the sink was busy")
	case <-time.After(again):
	}
	release()
	require.NoError(t, soon(t, done, "Close hangs"))
}

func nothingLeft(t *testing.T, open Opener, _ Options) {
	before := runtime.NumGoroutine()
	for range 5 {
		x := NewBox()
		a, b := open(t, NewBox()), open(t, x)
		near, far := dial(t, a, b, x)
		require.NoError(t, a.Post(b.Tuple(), []byte("x")))
		near.Close()
		far.Close()
		require.NoError(t, a.Close())
		require.NoError(t, b.Close())
	}
	look, late := time.NewTicker(time.Millisecond), time.After(patience)
	defer look.Stop()
	for runtime.NumGoroutine() > before {
		select {
		case <-look.C:
		case <-late:
			require.FailNow(t, "goroutines are left behind", "%d, and %d before", runtime.NumGoroutine(), before)
		}
	}
}

func differs(t *testing.T, open Opener, _ Options) {
	seen := map[fabric.Tuple]bool{}
	for range 10 {
		f, _ := endpoint(t, open)
		require.False(t, seen[f.Tuple()], "two endpoints have one tuple")
		seen[f.Tuple()] = true
	}
	const tries = 3 // a port may be the kernel's choice again, by chance
	for try := range tries {
		before := open(t, NewBox())
		require.NoError(t, before.Close())
		after, _ := endpoint(t, open)
		if before.Tuple() != after.Tuple() {
			return
		}
		require.Less(t, try, tries-1, "what was meant for the one before would reach it")
	}
}
