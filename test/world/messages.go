package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	app "ibrun"
	"ibrun/test/waitfor"
)

// lengths lists the lengths in bytes of the messages that the scenarios send. Messages of up to 16 KiB can be sent as
// datagrams, and longer ones (upgrade.LongMessage) only over a stream.
var lengths = []int{0, 1, 100, 1400, 16 << 10, 16<<10 + 1, 65_000, 100_000}

// messages sends a message of each length from every rank to every rank, itself included. It does so twice: with Send
// and Recv, and with TrySend and RecvFrom.
func (r *rank) messages(string) {
	defer r.departure()
	me, size := r.Rank(), r.Size()
	all := make([]int, size)
	for i := range all {
		all[i] = i
	}
	r.noError(r.Warm(all...))
	for round := range 2 {
		var sending sync.WaitGroup
		sending.Go(func() {
			for _, n := range lengths {
				for i := range size {
					to := (me + i) % size
					m := value(me, to, n)
					if round == 0 {
						r.noError(r.Send(r.ctx, to, m))
					} else {
						r.trySend(to, m)
					}
					clear(m) // The caller may change m after Send has returned, which must not change the message.
				}
			}
		})
		if round == 0 {
			r.receiveAny()
		} else {
			for i := range size {
				from := (me + size - i) % size
				for _, n := range lengths {
					got, err := r.RecvFrom(r.ctx, from)
					r.noError(err)
					r.same(value(from, me, n), got, "from %d", from)
				}
			}
		}
		sending.Wait()
		r.noError(r.Flush(r.ctx))
		r.noError(r.Barrier(r.ctx))
	}
	for _, to := range []int{-1, size} {
		r.errorIs(r.Send(r.ctx, to, nil), app.ErrNoSuchRank)
		r.errorIs(r.TrySend(to, nil), app.ErrNoSuchRank)
		r.errorIs(r.Warm(me, to), app.ErrNoSuchRank)
		_, err := r.RecvFrom(r.ctx, to)
		r.errorIs(err, app.ErrNoSuchRank)
	}
	brief, cancel := context.WithTimeout(r.ctx, time.Millisecond)
	defer cancel()
	_, _, err := r.Recv(brief)
	r.errorIs(err, context.DeadlineExceeded)
	r.noError(r.Barrier(r.ctx)) // No rank sends before this barrier, so the Recv above must time out.
}

// receiveAny receives the messages of all ranks in any order. The messages of each rank must arrive in order.
func (r *rank) receiveAny() {
	seen := make([]int, r.Size())
	for range len(lengths) * r.Size() {
		from, got, err := r.Recv(r.ctx)
		r.noError(err)
		r.check(seen[from] < len(lengths), "too many messages from %d", from)
		r.same(value(from, r.Rank(), lengths[seen[from]]), got, "message %d from %d", seen[from], from)
		seen[from]++
	}
}

func (r *rank) trySend(to int, m []byte) {
	waitfor.Require(r, "TrySend accepts the message", func() bool {
		err := r.TrySend(to, m)
		r.check(err == nil || errors.Is(err, app.ErrWouldBlock), "%v", err)
		return err == nil
	})
}

// departure checks that messages arrive although their sender calls Finalize. All ranks but the last one send messages
// to the last rank, put the key "finalizing" and call Finalize. The last rank starts to receive when all of them have
// put the key, and must receive all messages. After Finalize every method must return ErrFinalized.
func (r *rank) departure() {
	const finalizing = "finalizing"
	last, count := r.Size()-1, 30
	length := func(i int) int { return i * i * 13 % 3000 * (1 + i%7) }
	if r.Rank() != last {
		for i := range count {
			r.noError(r.Send(r.ctx, last, value(r.Rank(), i, length(i))))
		}
		r.noError(r.Put(r.ctx, finalizing, nil))
	} else {
		for from := range last {
			_, err := r.Get(r.ctx, from, finalizing)
			r.noError(err)
		}
		for from := range last {
			for i := range count {
				got, err := r.RecvFrom(r.ctx, from)
				r.noError(err)
				r.same(value(from, i, length(i)), got, "message %d from %d", i, from)
			}
		}
	}
	r.noError(r.Finalize(r.ctx))
	r.left = true
	me := r.Rank()
	for name, call := range map[string]func() error{
		"Finalize":  func() error { return r.Finalize(r.ctx) },
		"Send":      func() error { return r.Send(r.ctx, 0, nil) },
		"Send self": func() error { return r.Send(r.ctx, me, nil) },
		"TrySend":   func() error { return r.TrySend(last, nil) },
		"Warm":      func() error { return r.Warm(0, me) },
		"Flush":     func() error { return r.Flush(r.ctx) },
		"Recv":      func() error { _, _, err := r.Recv(r.ctx); return err },
		"RecvFrom":  func() error { _, err := r.RecvFrom(r.ctx, 0); return err },
		"Put":       func() error { return r.Put(r.ctx, "k", nil) },
		"Get":       func() error { _, err := r.Get(r.ctx, 0, "k"); return err },
		"Barrier":   func() error { return r.Barrier(r.ctx) },
		"AllGather": func() error { _, err := r.AllGather(r.ctx, nil); return err },
	} {
		err := call()
		r.check(errors.Is(err, app.ErrFinalized), "%s: %v", name, err)
	}
}

// ring sends a message to the next rank and receives one from the previous rank, three times.
func (r *rank) ring(string) {
	me, size := r.Rank(), r.Size()
	for n := range 3 {
		r.noError(r.Send(r.ctx, (me+1)%size, value(me, 0, n)))
		got, err := r.RecvFrom(r.ctx, (me+size-1)%size)
		r.noError(err)
		r.same(value((me+size-1)%size, 0, n), got, "from the left")
	}
	if me == 0 {
		fmt.Println("round")
	}
}

// noSuchRanks calls each method that takes a rank with numbers of ranks that do not exist. Each call must return
// ErrNoSuchRank.
func (r *rank) noSuchRanks(string) {
	for _, bad := range []int{-1, r.Size(), 1 << 32, 1<<32 + r.Rank(), math.MinInt} {
		for name, call := range map[string]func() error{
			"NodeOf":    func() error { _, err := r.NodeOf(bad); return err },
			"Send":      func() error { return r.Send(r.ctx, bad, nil) },
			"TrySend":   func() error { return r.TrySend(bad, nil) },
			"RecvFrom":  func() error { _, err := r.RecvFrom(r.ctx, bad); return err },
			"Warm":      func() error { return r.Warm(r.Rank(), bad) },
			"Get":       func() error { _, err := r.Get(r.ctx, bad, "k"); return err },
			"Broadcast": func() error { _, err := r.Broadcast(r.ctx, bad, nil); return err },
			"Gather":    func() error { _, err := r.Gather(r.ctx, bad, nil); return err },
			"Scatter":   func() error { _, err := r.Scatter(r.ctx, bad, nil); return err },
		} {
			err := call()
			r.check(errors.Is(err, app.ErrNoSuchRank), "%s of rank %d: %v", name, bad, err)
			r.contains(err, fmt.Sprintf("ibrun: %s: rank %d of 0 to %d: ", name, bad, r.Size()-1))
		}
	}
	r.noError(r.Barrier(r.ctx))
	short, cancel := context.WithTimeout(r.ctx, time.Millisecond)
	defer cancel()
	from, _, err := r.Recv(short)
	r.errorIs(err, context.DeadlineExceeded)
	r.errorIs(r.Send(r.ctx, from, nil), app.ErrNoSuchRank)
	r.noError(r.Barrier(r.ctx))
}

// nodeOf returns the number of the node on which a rank runs. The scenario fails if that rank does not exist.
func (r *rank) nodeOf(rank int) int {
	node, err := r.NodeOf(rank)
	r.noError(err)
	return node
}
