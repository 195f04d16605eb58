// Command alltoall sends a message of each rank to every other and checks what arrives: the pattern
// for which looking peers up one by one pays least.
//
//	ibrun -n 256 --hosts 'node[0001-0016]' --eager --stats ./alltoall -bytes 64
//
// With -every N, ranks send to those only whose number differs by a multiple of N, which must
// divide the number of ranks: with 16 ranks on each node and N = 16, to one on each.
//
// With -count each rank sends so many messages to every other, one to each in turn, and -wait lets
// small ones wait for others so that they share packets:
//
//	ibrun -n 64 --hosts 'node[0001-0016]' ./alltoall -bytes 64 -count 200 -wait 1ms
package main

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"os"
	"time"

	"ibrun"
)

// pattern is who sends what to whom.
type pattern struct {
	size, every, count int
	wait               time.Duration
}

func main() {
	var p pattern
	flag.IntVar(&p.size, "bytes", 64, "length of each message, 16 at least")
	flag.IntVar(&p.every, "every", 1, "distance of the ranks that one sends to")
	flag.IntVar(&p.count, "count", 1, "messages from each rank to each of those")
	flag.DurationVar(&p.wait, "wait", 0, "how long a small message may wait for others to the same rank")
	flag.Parse()
	p.size, p.every = max(p.size, 16), max(p.every, 1)
	if err := run(context.Background(), p); err != nil {
		fmt.Fprintln(os.Stderr, "alltoall:", err)
		os.Exit(1)
	}
}

// fill makes the message of one rank for another.
func fill(m []byte, from, to int) []byte {
	binary.LittleEndian.PutUint64(m, uint64(from))
	binary.LittleEndian.PutUint64(m[8:], uint64(to))
	for i := 16; i < len(m); i++ {
		m[i] = byte(from*31 + to*7 + i)
	}
	return m
}

func run(ctx context.Context, p pattern) error {
	w, err := ibrun.Init(ctx, ibrun.WithAggregation(p.wait))
	if err != nil {
		return err
	}
	if err := w.Barrier(ctx); err != nil {
		return err
	}
	if w.Size()%p.every != 0 {
		return fmt.Errorf("%d ranks are no multiple of -every %d", w.Size(), p.every)
	}
	began, peers := time.Now(), w.Size()/p.every
	failed := make(chan error, 1)
	go func() {
		m := make([]byte, p.size)
		for i := range peers * p.count {
			to := (w.Rank() + i*p.every) % w.Size() // everybody begins elsewhere
			if err := w.Send(ctx, to, fill(m, w.Rank(), to)); err != nil {
				failed <- err
				return
			}
		}
		failed <- nil
	}()
	seen := make([]int, w.Size())
	want := make([]byte, p.size)
	for range peers * p.count {
		from, m, err := w.Recv(ctx)
		if err != nil {
			return err
		}
		if seen[from] == p.count || string(m) != string(fill(want, from, w.Rank())) {
			return fmt.Errorf("rank %d: a wrong message from rank %d", w.Rank(), from)
		}
		seen[from]++
	}
	if err := <-failed; err != nil {
		return err
	}
	if err := w.Barrier(ctx); err != nil {
		return err
	}
	if w.Rank() == 0 {
		fmt.Printf("%d ranks sent %d messages of %d bytes in %v\n", w.Size(), w.Size()*peers*p.count, p.size,
			time.Since(began).Round(10*time.Microsecond))
	}
	return w.Finalize(ctx)
}
