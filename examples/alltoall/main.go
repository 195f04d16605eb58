// Command alltoall sends a message of each rank to every other and checks what arrives: the pattern
// for which looking peers up one by one pays least.
//
//	ibrun -n 256 --hosts 'node[0001-0016]' --eager --stats ./alltoall -bytes 64
//
// With -every N, ranks send to those only whose number differs by a multiple of N, which must
// divide the number of ranks: with 16 ranks on each node and N = 16, to one on each.
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
	every := flag.Int("every", 1, "distance of the ranks that one sends to")
	flag.Parse()
	if err := run(context.Background(), max(*size, 16), max(*every, 1)); err != nil {
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

func run(ctx context.Context, size, every int) error {
	w, err := ibrun.Init(ctx)
	if err != nil {
		return err
	}
	if err := w.Barrier(ctx); err != nil {
		return err
	}
	if w.Size()%every != 0 {
		return fmt.Errorf("%d ranks are no multiple of -every %d", w.Size(), every)
	}
	began, peers := time.Now(), w.Size()/every
	failed := make(chan error, 1)
	go func() {
		m := make([]byte, size)
		for i := range peers {
			to := (w.Rank() + i*every) % w.Size() // everybody begins elsewhere
			if err := w.Send(ctx, to, fill(m, w.Rank(), to)); err != nil {
				failed <- err
				return
			}
		}
		failed <- nil
	}()
	seen := make([]bool, w.Size())
	want := make([]byte, size)
	for range peers {
		from, m, err := w.Recv(ctx)
		if err != nil {
			return err
		}
		if seen[from] || string(m) != string(fill(want, from, w.Rank())) {
			return fmt.Errorf("rank %d: a wrong message from rank %d", w.Rank(), from)
		}
		seen[from] = true
	}
	if err := <-failed; err != nil {
		return err
	}
	if err := w.Barrier(ctx); err != nil {
		return err
	}
	if w.Rank() == 0 {
		fmt.Printf("%d ranks sent %d messages of %d bytes in %v\n", w.Size(), w.Size()*peers, size,
			time.Since(began).Round(10*time.Microsecond))
	}
	return w.Finalize(ctx)
}
