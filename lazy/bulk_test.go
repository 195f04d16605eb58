package lazy

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/fabric/mem"
	"ibrun/internal/job"
	"ibrun/lazy/peer"
)

// order checks that the messages of each rank come in their order and as payload made them.
type order struct {
	next map[uint32]uint32
	size func(from, n uint32) int
}

func (o order) came(me uint32, m Message) error {
	n := o.next[m.From]
	o.next[m.From]++
	if !bytes.Equal(m.Body, payload(m.From, me, n, o.size(m.From, n))) {
		return fmt.Errorf("message %d of rank %d to %d is wrong or out of order", n, m.From, me)
	}
	return nil
}

// takeInOrder receives so many messages and checks them.
func takeInOrder(ctx context.Context, t *testing.T, table *Table, me uint32, count int, size func(from, n uint32) int) {
	o := order{map[uint32]uint32{}, size}
	for range count {
		m, err := table.Recv(ctx)
		if err = cmp.Or(err, o.came(me, m)); err != nil {
			t.Errorf("rank %d: %v after %v", me, err, o.next)
			return
		}
	}
}

// A sender of messages of the maximum length of datagram connections, without pauses, moves to a stream once. Most
// messages are sent on the stream.
func TestBulkMovesToAStream(t *testing.T) {
	const count, size = 1000, peer.LongMessage - 12
	for name, open := range fabrics() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 2, 1, open).start()
			ctx := within(t)
			var all sync.WaitGroup
			all.Go(func() {
				takeInOrder(ctx, t, w.table(1), 1, count, func(uint32, uint32) int { return size })
			})
			for n := range uint32(count) {
				require.NoError(t, w.table(0).Send(ctx, 1, payload(0, 1, n, size)))
			}
			all.Wait()
			require.NoError(t, w.table(0).Flush(ctx))
			sum := w.table(0).Tally().Sum
			require.Equal(t, uint64(1), sum[job.CountMoves])
			require.Equal(t, uint64(1), sum[job.CountStreams])
			require.Greater(t, sum[job.CountStreamed], uint64(count/2))
			other := w.table(1).Tally().Sum
			require.Equal(t, uint64(1), other[job.CountStreams])
			require.Zero(t, other[job.CountMoves], "a side that sends nothing does not move")
		})
	}
}

// burst is a randomized schedule of senders. Unless trickle is set, more than moveAt bytes may be unacknowledged.
type burst struct {
	seed    uint64
	ranks   uint32
	most    int  // exclusive upper limit of the size of a message in bytes, plus 12
	trickle bool // at most half of moveAt bytes are unacknowledged
	both    bool // every rank sends; otherwise rank 0 alone
	faults  mem.Faults
}

func drawBurst(seed uint64) burst {
	r := rand.New(rand.NewPCG(seed, 20))
	of := func(list ...int) int { return list[r.IntN(len(list))] }
	return burst{
		seed: seed, ranks: uint32(of(2, 2, 3)), most: of(300, 1400, 5000, peer.LongMessage), trickle: seed%4 == 0,
		both: r.IntN(2) == 0,
		faults: mem.Faults{
			Loss: float64(of(0, 0, 10, 30)) / 100, Dup: 0.1, Reorder: 0.1,
			Delay: time.Duration(of(50, 500)) * time.Microsecond, Jitter: time.Duration(of(0, 300)) * time.Microsecond,
		},
	}
}

// size returns the length in bytes of message n between two ranks.
func (b burst) size(from, to, n uint32) int {
	key := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(make([]byte, 24), from), to)
	return rand.New(rand.NewPCG(b.seed, binary.BigEndian.Uint64(key[24:])+uint64(n)<<20)).IntN(b.most - 12)
}

// burstLimit is the maximum number of bytes that one sender sends before it has moved to a stream. Sending them takes
// some seconds at one window per round trip.
const burstLimit = 16 << 20

// send sends messages until the pair has moved to a stream, and some more. It returns the number of messages.
func (b burst) send(ctx context.Context, table *Table, me, to uint32) (count uint32, err error) {
	moved := func() bool {
		table.fmu.Lock()
		defer table.fmu.Unlock()
		return table.remotePeer(to).peer.Sending()
	}
	after := 100
	for bytes, free := 0, 0; after > 0 && bytes < burstLimit; count++ {
		m := payload(me, to, count, b.size(me, to, count))
		if err := table.Send(ctx, to, m); err != nil {
			return count, err
		}
		bytes, free = bytes+len(m), free+len(m)+64
		if b.trickle && free > moveAt/2-peer.LongMessage {
			if err := table.remotePeer(to).flush(ctx); err != nil {
				return count, err
			}
			free = 0
		}
		if b.trickle || moved() {
			after--
		}
	}
	return count, table.remotePeer(to).flush(ctx)
}

// run holds that each sender whose window filled has moved, once, and stays so, and that no other
// has.
func (b burst) run(t *testing.T) (moves uint64) {
	w := newWorld(t, b.ranks, 1, overMem(mem.New(b.seed, b.faults))).start()
	ctx, stop := context.WithCancel(within(t))
	var senders, takers sync.WaitGroup
	for me := range b.ranks {
		takers.Go(func() {
			o := order{map[uint32]uint32{}, func(from, n uint32) int { return b.size(from, me, n) }}
			for {
				m, err := w.table(me).Recv(ctx)
				if err != nil {
					return // stopped
				}
				if err := o.came(me, m); err != nil {
					t.Errorf("seed %d: %v", b.seed, err)
				}
			}
		})
		for to := range b.ranks {
			if me != to && (me == 0 || b.both) {
				senders.Go(func() {
					if n, err := b.send(ctx, w.table(me), me, to); err != nil {
						t.Errorf("seed %d: %d to %d, message %d: %v", b.seed, me, to, n, err)
					}
				})
			}
		}
	}
	senders.Wait()
	stop()
	takers.Wait()
	for me := range b.ranks {
		sum := w.table(me).Tally().Sum
		want, streams := uint64(0), uint64(0)
		if !b.trickle && (me == 0 || b.both) {
			want = uint64(b.ranks - 1)
		}
		if !b.trickle {
			streams = 1
			if me == 0 || b.both {
				streams = uint64(b.ranks - 1)
			}
		}
		require.Equal(t, want, sum[job.CountMoves], "seed %d: rank %d: moves", b.seed, me)
		require.Equal(t, streams, sum[job.CountStreams], "seed %d: rank %d: streams", b.seed, me)
		moves += want
		require.NoError(t, w.table(me).Close())
	}
	return moves
}

// A pair that should move to a stream does, in every schedule, once in each direction that should;
// a pair that should not does not.
func TestBursts(t *testing.T) {
	seeds := []uint64{*oneSchedule}
	if *oneSchedule == 0 {
		seeds = nil
		for seed := range uint64(4 * *schedules) {
			seeds = append(seeds, seed)
		}
	}
	moves := uint64(0)
	for _, seed := range seeds {
		synctest.Test(t, func(t *testing.T) { moves += drawBurst(seed).run(t) })
		if t.Failed() {
			return
		}
	}
	t.Logf("%d schedules, %d moves", len(seeds), moves)
	require.True(t, *oneSchedule > 0 || moves > uint64(len(seeds)))
}
