package ibrun_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"ibrun"
)

// The examples run as they are: outside ibrun, a program is a job of one rank,
// which is its own neighbour.

// A ring: each rank greets the one on its right.
func ExampleInit() {
	ctx := context.Background()
	w, err := ibrun.Init(ctx)
	if err != nil {
		log.Fatal(err)
	}
	left, right := (w.Rank()+w.Size()-1)%w.Size(), (w.Rank()+1)%w.Size()
	if err := w.Send(ctx, right, fmt.Appendf(nil, "hello from rank %d", w.Rank())); err != nil {
		log.Fatal(err)
	}
	m, err := w.RecvFrom(ctx, left)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("rank %d of %d: %s\n", w.Rank(), w.Size(), m)
	if err := w.Finalize(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: rank 0 of 1: hello from rank 0
}

// Every rank sends its square to rank 0, which takes them as they come.
func ExampleWorld_Send() {
	ctx := context.Background()
	w, err := ibrun.Init(ctx)
	if err != nil {
		log.Fatal(err)
	}
	square := (w.Rank() + 1) * (w.Rank() + 1)
	if err := w.Send(ctx, 0, []byte{byte(square)}); err != nil {
		log.Fatal(err)
	}
	if w.Rank() == 0 {
		for range w.Size() {
			from, m, err := w.Recv(ctx)
			if err != nil {
				log.Fatal(err)
			}
			fmt.Printf("rank %d says %d\n", from, m[0])
		}
	}
	if err := w.Finalize(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: rank 0 says 1
}

// All ranks learn what each has, here how many items of work.
func ExampleWorld_AllGather() {
	ctx := context.Background()
	w, err := ibrun.Init(ctx)
	if err != nil {
		log.Fatal(err)
	}
	counts, err := w.AllGather(ctx, []byte{byte(10 + w.Rank())})
	if err != nil {
		log.Fatal(err)
	}
	total := 0
	for rank, n := range counts {
		fmt.Printf("rank %d has %d items\n", rank, n[0])
		total += int(n[0])
	}
	fmt.Println(total, "in all")
	if err := w.Finalize(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// rank 0 has 10 items
	// 10 in all
}

// A job that is started with --keep-going goes on when a rank fails. Recv names each
// failed rank once; here rank 0 waits for one word of each rank, and stops waiting
// for those that have failed. The program farm, in the folder examples, gives
// their work to others.
func ExampleWorld_Failures() {
	ctx := context.Background()
	w, err := ibrun.Init(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if err := w.Send(ctx, 0, fmt.Appendf(nil, "done by rank %d", w.Rank())); err != nil {
		log.Fatal(err)
	}
	if w.Rank() == 0 {
		waiting := map[int]bool{}
		for rank := range w.Size() {
			waiting[rank] = true
		}
		for len(waiting) > 0 {
			from, m, err := w.Recv(ctx)
			switch {
			case errors.Is(err, ibrun.ErrFailed):
				for _, rank := range w.Failures() { // all so far: err names one
					delete(waiting, rank)
				}
			case err != nil:
				log.Fatal(err)
			default:
				fmt.Println(string(m))
				delete(waiting, from)
			}
		}
	}
	if err := w.Finalize(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: done by rank 0
}

// Rank 0 says on the key-value store (KVS) where its service listens. Whoever wants to
// know asks for it, and waits until it is there.
func ExampleWorld_Put() {
	ctx := context.Background()
	w, err := ibrun.Init(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if w.Rank() == 0 {
		if err := w.Put(ctx, "service", []byte("http://127.0.0.1:8080")); err != nil {
			log.Fatal(err)
		}
	}
	where, err := w.Get(ctx, 0, "service")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("rank %d asks %s\n", w.Rank(), where)
	if err := w.Finalize(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: rank 0 asks http://127.0.0.1:8080
}
