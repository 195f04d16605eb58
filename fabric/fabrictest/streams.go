package fabrictest

import (
	"bytes"
	"context"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/fabric"
)

func dial(t *testing.T, a, b fabric.Fabric, x *Box) (fabric.Stream, fabric.Stream) {
	t.Helper()
	offer, err := b.Offer()
	require.NoError(t, err)
	require.LessOrEqual(t, len(offer), 64)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	near, err := a.Dial(ctx, b.Tuple(), offer)
	require.NoError(t, err)
	far := x.Stream(t)
	t.Cleanup(func() { near.Close(); far.Close() })
	return near, far
}

// noise is n bytes in which a shift or a swap shows.
func noise(n int, seed byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*i>>5) ^ byte(i>>8) ^ byte(i>>16) ^ seed
	}
	return b
}

func streams(t *testing.T, open Opener, _ Options) {
	a, _ := endpoint(t, open)
	b, x := endpoint(t, open)
	near, far := dial(t, a, b, x)
	var all sync.WaitGroup
	for i, way := range [][2]fabric.Stream{{near, far}, {far, near}} {
		want := noise(10<<20, byte(i))
		all.Go(func() {
			if n, err := way[0].Write(want); err != nil || n != len(want) {
				t.Errorf("%d bytes of 10 MB were written: %v", n, err)
			}
		})
		all.Go(func() {
			got := make([]byte, len(want))
			if _, err := io.ReadFull(way[1], got); err != nil || !bytes.Equal(got, want) {
				t.Errorf("10 MB did not arrive as they were sent: %v", err)
			}
		})
	}
	finish(t, &all, "10 MB each way do not get through")
}

func closing(t *testing.T, open Opener, _ Options) {
	a, _ := endpoint(t, open)
	b, x := endpoint(t, open)
	for _, size := range []int{0, 1, 30_000, 3 << 20} {
		near, far := dial(t, a, b, x)
		want := noise(size, 1)
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := near.Write(want); err != nil {
				t.Error(err)
			}
			if err := near.Close(); err != nil {
				t.Error(err)
			}
		})
		all.Go(func() {
			got, err := io.ReadAll(far)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes of %d arrived before Close: %v", len(got), size, err)
			}
		})
		finish(t, &all, "the end does not arrive")
	}
}

func closeEndsRead(t *testing.T, open Opener, _ Options) {
	a, _ := endpoint(t, open)
	b, x := endpoint(t, open)
	near, far := dial(t, a, b, x)
	over := make(chan error, 2)
	for _, s := range []fabric.Stream{near, far} {
		go func() {
			_, err := s.Read(make([]byte, 1))
			over <- err
		}()
	}
	require.NoError(t, near.Close())
	for range 2 {
		require.Error(t, soon(t, over, "a read goes on after Close"))
	}
	_, err := near.Write([]byte("x"))
	require.Error(t, err)
}

func outlive(t *testing.T, open Opener, _ Options) {
	a, _ := endpoint(t, open)
	b, x := endpoint(t, open)
	near, far := dial(t, a, b, x)
	require.NoError(t, a.Close())
	require.NoError(t, b.Close())
	for _, way := range [][2]fabric.Stream{{near, far}, {far, near}} {
		_, err := way[0].Write([]byte("still here"))
		require.NoError(t, err)
		got := make([]byte, 10)
		_, err = io.ReadFull(way[1], got)
		require.NoError(t, err)
		require.Equal(t, "still here", string(got))
	}
}

func dials(t *testing.T, open Opener, _ Options) {
	a, _ := endpoint(t, open)
	b, x := endpoint(t, open)
	offer, err := b.Offer()
	require.NoError(t, err)
	second, err := b.Offer()
	require.NoError(t, err)
	require.Equal(t, offer, second, "an offer holds as long as the endpoint")
	const n = 50
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			s, err := a.Dial(t.Context(), b.Tuple(), offer)
			if err != nil {
				t.Error(err)
				return
			}
			if _, err = s.Write([]byte{byte(i)}); err != nil {
				t.Error(err)
			}
			s.Close()
		})
	}
	seen := map[string]bool{}
	for range n {
		s := x.Stream(t)
		got, err := io.ReadAll(s)
		require.NoError(t, err)
		require.Len(t, got, 1)
		seen[string(got)] = true
		s.Close()
	}
	finish(t, &all, "Dial hangs")
	require.Len(t, seen, n)
}

func dialFails(t *testing.T, open Opener, _ Options) {
	a, _ := endpoint(t, open)
	b := open(t, NewBox())
	offer, err := b.Offer()
	require.NoError(t, err)
	for _, bad := range [][]byte{nil, []byte("not an offer of any fabric")} {
		_, err = a.Dial(t.Context(), b.Tuple(), bad)
		require.Error(t, err)
	}
	_, err = a.Dial(t.Context(), fabric.Tuple{Kind: fabric.NONE}, offer)
	require.Error(t, err)
	require.NoError(t, b.Close())
	failed := make(chan error, 1)
	go func() {
		_, err := a.Dial(t.Context(), b.Tuple(), offer)
		failed <- err
	}()
	require.Error(t, soon(t, failed, "a dial to a closed endpoint hangs"))
}

func dialContext(t *testing.T, open Opener, _ Options) {
	a, _ := endpoint(t, open)
	b, x := endpoint(t, open)
	offer, err := b.Offer()
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = a.Dial(ctx, b.Tuple(), offer)
	require.ErrorIs(t, err, context.Canceled)
	var all sync.WaitGroup
	for i := range 20 { // cancelled at any moment: an error or a stream, and soon
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*50*time.Microsecond)
			defer cancel()
			if s, err := a.Dial(ctx, b.Tuple(), offer); err == nil {
				s.Close()
			}
		})
	}
	finish(t, &all, "Dial does not heed its context")
	for len(x.accepted) > 0 {
		(<-x.accepted).Close()
	}
}
