package fabrictest

import (
	"cmp"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/fabric"
)

func whole(t *testing.T, open Opener, o Options) {
	a, _ := endpoint(t, open)
	b, x := endpoint(t, open)
	require.GreaterOrEqual(t, a.MTU(), 512)
	sent := map[string]bool{}
	for n, size := range []int{1, 2, 3, 4, 7, 8, 31, 32, 33, 63, 64, 65, 255, 256, 257, 511, 512, a.MTU() - 1,
		a.MTU()} {
		m := pattern(size, n)
		sent[string(m)] = true
		send(t, a, b.Tuple(), m, x, o.Lossy)
	}
	x.onlyOf(t, sent)
}

func tooLong(t *testing.T, open Opener, _ Options) {
	a, _ := endpoint(t, open)
	b, x := endpoint(t, open)
	for _, more := range []int{1, 2, 1000, 1 << 20} {
		require.ErrorIs(t, a.Post(b.Tuple(), make([]byte, a.MTU()+more)), fabric.ErrTooLong)
	}
	require.False(t, x.has(func(got map[string]int) bool { return len(got) > 0 }, again), "a part of it arrived")
}

func manySenders(t *testing.T, open Opener, o Options) {
	a, _ := endpoint(t, open)
	b, x := endpoint(t, open)
	const senders, each, size = 8, 50, 400
	sent := map[string]bool{}
	for n := range senders * each {
		sent[string(pattern(size, n))] = true
	}
	var all sync.WaitGroup
	for s := range senders {
		all.Go(func() {
			buf := make([]byte, size)
			for i := range each {
				copy(buf, pattern(size, s*each+i))
				if err := a.Post(b.Tuple(), buf); err != nil {
					t.Error(err)
				}
				clear(buf) // it is ours again
			}
		})
	}
	finish(t, &all, "Post blocks")
	if !o.Lossy {
		require.True(t, x.has(func(got map[string]int) bool { return len(got) == len(sent) }, patience),
			"some did not arrive")
	}
	send(t, a, b.Tuple(), pattern(size, 0), x, o.Lossy)
	x.onlyOf(t, sent)
}

func nobody(t *testing.T, open Opener, o Options) {
	a, _ := endpoint(t, open)
	b, x := endpoint(t, open)
	gone := open(t, NewBox())
	where := gone.Tuple()
	require.NoError(t, gone.Close())
	for range 100 {
		require.NoError(t, a.Post(where, []byte("hello")))
		_ = a.Post(fabric.Tuple{Kind: fabric.NONE}, []byte("hello")) // an error, if it can never work
	}
	m := pattern(100, 1)
	send(t, a, b.Tuple(), m, x, o.Lossy)
	x.onlyOf(t, map[string]bool{string(m): true})
}

// flood sends to a sink that takes nothing.
func flood(t *testing.T, open Opener, o Options) {
	a, _ := endpoint(t, open)
	stuck := make(chan struct{})
	release := sync.OnceFunc(func() { close(stuck) })
	x := NewBox()
	x.onDatagram = func(fabric.Tuple, []byte) { <-stuck }
	b := open(t, x)
	t.Cleanup(func() { release(); b.Close() })
	m, after := pattern(64, 9), pattern(64, 10)
	var all sync.WaitGroup
	all.Go(func() {
		for range cmp.Or(o.Flood, 100_000) {
			if err := a.Post(b.Tuple(), m); err != nil {
				t.Error(err)
				return
			}
		}
	})
	finish(t, &all, "Post waits for a sink that takes nothing")
	release()
	send(t, a, b.Tuple(), after, x, true)
	x.onlyOf(t, map[string]bool{string(m): true, string(after): true})
}

// answer sends back to where a datagram came from.
func answer(t *testing.T, open Opener, _ Options) {
	a, xa := endpoint(t, open)
	back := make(chan fabric.Tuple, 1)
	xb := NewBox()
	xb.onDatagram = func(from fabric.Tuple, _ []byte) {
		select {
		case back <- from:
		default:
		}
	}
	b := open(t, xb)
	t.Cleanup(func() { b.Close() })
	send(t, a, b.Tuple(), []byte("ping"), xb, true)
	from := soon(t, back, "no datagram")
	require.Equal(t, a.Tuple(), from)
	send(t, b, from, []byte("pong"), xa, true)
}
