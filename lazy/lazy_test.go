package lazy

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/fabric"
	"ibrun/fabric/mem"
	"ibrun/internal/job"
)

// fabrics returns the ways between nodes that tests go. Those with label ib set it to InfiniBand.
var fabrics = func() map[string]func(fabric.Sink) (fabric.Fabric, error) {
	return map[string]func(fabric.Sink) (fabric.Fabric, error){
		"mem": overMem(mem.New(1, mem.Faults{})),
		"mem nasty": overMem(mem.New(2, mem.Faults{Loss: 0.2, Dup: 0.1, Reorder: 0.1, Delay: 100 * time.Microsecond,
			Jitter: 300 * time.Microsecond})),
		"udp": overUDP,
	}
}

// payload is a message that shows from whom, to whom and which it is.
func payload(from, to, n uint32, size int) []byte {
	m := make([]byte, 12+size)
	binary.BigEndian.PutUint32(m, from)
	binary.BigEndian.PutUint32(m[4:], to)
	binary.BigEndian.PutUint32(m[8:], n)
	for i := range m[12:] {
		m[12+i] = byte(uint32(i)*13 + n)
	}
	return m
}

// sizes cover a segment, several, and streams.
func sizeOf(n int) int {
	switch {
	case n%50 == 49:
		return 300_000
	case n%20 == 19:
		return 20_000
	case n%5 == 4:
		return 5_000
	}
	return n % 100
}

// exchange lets every rank send to every other and checks order and content.
func exchange(t *testing.T, w *world, count int) {
	ctx := within(t)
	var all sync.WaitGroup
	size := w.layout.Ranks()
	for me := range size {
		table := w.table(me)
		for to := range size {
			all.Go(func() {
				for n := range count {
					if err := table.Send(ctx, to, payload(me, to, uint32(n), sizeOf(n))); err != nil {
						t.Errorf("%d to %d: %v", me, to, err)
						return
					}
				}
			})
		}
		all.Go(func() {
			takeInOrder(ctx, t, table, me, int(size)*count, func(_, n uint32) int { return sizeOf(int(n)) })
		})
	}
	all.Wait()
}

func TestMessagesArriveOnceInOrder(t *testing.T) {
	for name, open := range fabrics() {
		for _, streams := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s streams=%t", name, streams), func(t *testing.T) {
				w := newWorld(t, 4, 1, open)
				w.config = func(c *Config) { c.Streams = streams }
				w.start()
				exchange(t, w, scale.messages)
				for r := range w.layout.Ranks() {
					require.NoError(t, w.table(r).Flush(within(t)))
					tally := w.table(r).Tally()
					require.Equal(t, uint64(3), tally.Sum[job.CountPeers])
					require.Equal(t, uint64(3), tally.Sum[job.CountStreams])
				}
			})
		}
	}
}

func TestNeighboursOnTheNode(t *testing.T) {
	w := newWorld(t, 2, 3, overUDP).start()
	exchange(t, w, 60)
	for r := range w.layout.Ranks() {
		tally := w.table(r).Tally()
		require.Equal(t, uint64(5), tally.Sum[job.CountPeers])
		require.Equal(t, uint64(2), tally.Sum[job.CountLocal])
		require.LessOrEqual(t, tally.Sum[job.CountLookups], uint64(1), "one block serves three ranks")
	}
}

// Nothing is kept for peers that are never used, however many there are.
func TestAMillionPeersCostNothing(t *testing.T) {
	layout := job.NewLayout([]job.Share{{Nodes: 65536, Ranks: 16}})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	table := New(Config{Rank: 5, Epoch: 1, Layout: layout, Resolver: silent{},
		Seal: fabric.NewSeal(fabric.Key{}, 5, 1), Open: overMem(mem.New(1, mem.Faults{}))})
	require.NoError(t, table.Reach())
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<10))
	require.NoError(t, table.Close())
}

// silent is an agent that never answers.
type silent struct{}

func (silent) AskBlock(uint32, uint16, bool) error { return nil }
func (silent) AskSecondary(uint32, uint16) error   { return nil }
func (silent) AskPair(uint32) error                { return nil }

// What is staged for peers without an answer is bounded, and more is refused
// rather than lost; nothing waits that was not asked to.
func TestStagingIsBounded(t *testing.T) { synctest.Test(t, testStaging) }

func testStaging(t *testing.T) {
	layout := job.NewLayout([]job.Share{{Nodes: 1000, Ranks: 1}})
	table := New(Config{Rank: 0, Epoch: 1, Layout: layout, Resolver: silent{},
		Seal: fabric.NewSeal(fabric.Key{}, 0, 1), Open: overMem(mem.New(1, mem.Faults{}))})
	require.NoError(t, table.Reach())
	defer table.Close()
	taken := 0
	for to := uint32(1); to < 1000; to++ {
		switch err := table.TrySend(to, make([]byte, 1000)); {
		case err == nil:
			taken += 1000
		default:
			require.ErrorIs(t, err, ErrFull)
		}
	}
	require.LessOrEqual(t, taken, earlyLimit)
	require.Greater(t, taken, earlyLimit/2)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.ErrorIs(t, table.Send(ctx, 999, make([]byte, 1000)), context.DeadlineExceeded)
}

// crowded is ranks of which each may have two connections at a time.
func crowded(t *testing.T, ranks uint32, open func(fabric.Sink) (fabric.Fabric, error)) *world {
	w := newWorld(t, ranks, 1, open)
	w.config = func(c *Config) { c.MaxLive = 2 }
	return w.start()
}

// Connections above the limit are closed when idle, with their streams, and made again.
func TestIdleStreamsAreClosed(t *testing.T) {
	for name, open := range fabrics() {
		t.Run(name, func(t *testing.T) {
			w := crowded(t, 6, open)
			ctx := within(t)
			for round := range uint32(6) {
				for to := uint32(1); to < 6; to++ {
					size := 100_000 * int(round%2) // long and short ones in turns
					body := payload(0, to, round, size)
					require.NoError(t, w.table(0).Send(ctx, to, body))
					w.receivesFrom(ctx, to, 0, body)
					if round%3 == 2 { // and both ways
						require.NoError(t, w.table(to).Send(ctx, 0, body))
						w.receivesFrom(ctx, 0, to, body)
					}
				}
			}
			tally := w.table(0).Tally()
			require.Greater(t, tally.Sum[job.CountReopened], uint64(3))
			require.Greater(t, tally.Sum[job.CountStreams], uint64(5), "some pair has moved twice")
		})
	}
}

// Ranks that send long and short messages to each other at random, with far
// more pairs than live connections: nothing is lost, doubled or out of order.
func TestChurn(t *testing.T) {
	for name, open := range fabrics() {
		t.Run(name, func(t *testing.T) {
			w := crowded(t, 6, open)
			exchange(t, w, scale.churn)
		})
	}
}

// A peer that has ended is an error that names it.
func TestDeadPeers(t *testing.T) {
	for name, open := range fabrics() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 3, 1, open).start()
			ctx := within(t)
			var gone *PeerError
			// Before the first message.
			w.end(2, ErrEnded)
			err := w.table(0).Send(ctx, 2, []byte("x"))
			if err == nil {
				err = w.table(0).Flush(ctx)
			}
			require.ErrorAs(t, err, &gone)
			require.Equal(t, 2, gone.Rank)
			require.ErrorContains(t, err, "rank 2: it has ended")
			// In the middle of a conversation.
			require.NoError(t, w.table(0).Send(ctx, 1, []byte("x")))
			require.NoError(t, w.table(0).Flush(ctx))
			w.end(1, ErrFailed)
			for err = nil; err == nil; {
				err = w.table(0).Send(ctx, 1, make([]byte, 1000))
			}
			require.ErrorAs(t, err, &gone)
			require.ErrorContains(t, err, "rank 1: it was lost")
			_, err = w.table(0).RecvFrom(ctx, 1)
			require.ErrorAs(t, err, &gone)
		})
	}
}

// A receiver that waits for a dead rank is told, though it sends nothing.
func TestReceiverOfADeadPeer(t *testing.T) {
	w := newWorld(t, 2, 1, overUDP).start()
	ctx := within(t)
	require.NoError(t, w.table(1).Send(ctx, 0, []byte("last words")))
	require.NoError(t, w.table(1).Flush(ctx))
	w.end(1, ErrFailed)
	w.receivesFrom(ctx, 0, 1, []byte("last words"))
	_, err := w.table(0).RecvFrom(ctx, 1)
	var gone *PeerError
	require.ErrorAs(t, err, &gone)
	require.Equal(t, 1, gone.Rank)
}

// What is not ours is counted and dropped, also under a flood, and never answered.
func TestStrangers(t *testing.T) {
	w := newWorld(t, 2, 1, overUDP).start()
	ctx := within(t)
	heard := make(chan struct{}, 1)
	stranger, err := overUDP(ear{heard})
	require.NoError(t, err)
	defer stranger.Close()
	to := w.table(1).Tuple()
	other := fabric.NewSeal(fabric.DeriveKey([32]byte{99}), 0, 1)
	ours := fabric.NewSeal(w.key, 0, 1)
	stop := make(chan struct{})
	var flood sync.WaitGroup
	flood.Go(func() {
		rng := rand.New(rand.NewPCG(1, 1))
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			b := make([]byte, rng.IntN(200))
			switch e := (fabric.Envelope{Kind: uint8(1 + i%7), Dst: 1, DstEpoch: 1, Gen: 1}); i % 4 {
			case 0:
				for k := range b {
					b[k] = byte(rng.Uint32())
				}
			case 1:
				b = other.Append(nil, e, b)
			case 2:
				e.Dst = 0
				b = ours.Append(nil, e, b)
			case 3:
				b = ours.Append(nil, e, b)
				b[rng.IntN(len(b))] ^= 1 << rng.IntN(8)
			}
			_ = stranger.Post(to, b)
		}
	})
	strangers := func() uint64 { return w.table(1).Tally().Sum[job.CountStrangers] }
	for n := uint32(0); n < 200 || strangers() <= 100; n++ {
		require.NoError(t, w.table(0).Send(ctx, 1, payload(0, 1, n, 100)))
		w.receives(ctx, 1, payload(0, 1, n, 100))
	}
	close(stop)
	flood.Wait()
	select {
	case <-heard:
		require.Fail(t, "a stranger was answered")
	default:
	}
}

// ear is a sink that tells when it hears anything.
type ear struct{ received chan struct{} }

func (e ear) Datagram(fabric.Tuple, []byte) {
	select {
	case e.received <- struct{}{}:
	default:
	}
}
func (e ear) Accepted(s fabric.Stream) { s.Close() }

func TestBadCalls(t *testing.T) {
	w := newWorld(t, 2, 2, overUDP).start()
	table := w.table(0)
	ctx := within(t)
	require.ErrorIs(t, table.Send(ctx, 4, nil), ErrRank)
	require.ErrorIs(t, table.TrySend(1<<31, nil), ErrRank)
	require.ErrorIs(t, table.Warm(1, 4), ErrRank)
	_, err := table.RecvFrom(ctx, 4)
	require.ErrorIs(t, err, ErrRank)
	waiting := make(chan error, 1)
	go func() {
		_, err := table.Recv(ctx)
		waiting <- err
	}()
	require.NoError(t, table.Send(ctx, 0, nil), "to itself, and empty")
	require.NoError(t, <-waiting)
	soon, cancel := context.WithCancel(ctx)
	cancel()
	_, err = table.Recv(soon)
	require.ErrorIs(t, err, context.Canceled)
	go func() {
		_, err := table.RecvFrom(ctx, 3)
		waiting <- err
	}()
	require.NoError(t, table.Warm(0, 1, 2, 3))
	require.NoError(t, table.Close())
	require.ErrorIs(t, <-waiting, ErrClosed)
	require.ErrorIs(t, table.Send(ctx, 1, nil), ErrClosed)
	require.NoError(t, table.Close())
}
