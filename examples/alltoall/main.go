// Command alltoall sends a message of each rank to every other and checks what arrives: the pattern
// for which looking peers up one by one pays least.
//
//	ibrun -n 256 --hosts 'node[0001-0016]' --eager --stats ./alltoall -bytes 64
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

func main() {
	size := flag.Int("bytes", 64, "length of each message, 16 at least")
	count := flag.Int("count", 1, "messages from each rank to each")
	wait := flag.Duration("wait", 0, "how long a small message may wait for others to the same rank")
	flag.Parse()
	if err := run(context.Background(), max(*size, 16), *count, *wait); err != nil {
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

func run(ctx context.Context, size, count int, wait time.Duration) error {
	w, err := ibrun.Init(ctx, ibrun.WithAggregation(wait))
	if err != nil {
		return err
	}
	if err := w.Barrier(ctx); err != nil {
		return err
	}
	began := time.Now()
	failed := make(chan error, 1)
	go func() {
		m := make([]byte, size)
		for i := range w.Size() * count {
			to := (w.Rank() + i) % w.Size() // everybody begins elsewhere
			if err := w.Send(ctx, to, fill(m, w.Rank(), to)); err != nil {
				failed <- err
				return
			}
		}
		failed <- nil
	}()
	seen := make([]int, w.Size())
	want := make([]byte, size)
	for range w.Size() * count {
		from, m, err := w.Recv(ctx)
		if err != nil {
			return err
		}
		if seen[from] == count || string(m) != string(fill(want, from, w.Rank())) {
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
		fmt.Printf("%d ranks sent %d messages of %d bytes in %v\n", w.Size(), w.Size()*w.Size()*count, size,
			time.Since(began).Round(10*time.Microsecond))
	}
	return w.Finalize(ctx)
}
