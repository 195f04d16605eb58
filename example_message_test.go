package ibrun_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"ibrun"
)

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
			fmt.Printf("rank %d sends %d\n", from, m[0])
		}
	}
	if err := w.Finalize(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: rank 0 sends 1
}

// A rank that must not wait sends later what cannot be taken now.
func ExampleWorld_TrySend() {
	ctx := context.Background()
	w, err := ibrun.Init(ctx)
	if err != nil {
		log.Fatal(err)
	}
	var later [][]byte
	m := []byte("status: running")
	switch err := w.TrySend(0, m); {
	case errors.Is(err, ibrun.ErrWouldBlock):
		later = append(later, m)
	case err != nil:
		log.Fatal(err)
	}
	fmt.Println(len(later), "to be sent later")
	if err := w.Finalize(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: 0 to be sent later
}

// Recv takes messages of any rank, in the order of their arrival, and says whose they are.
func ExampleWorld_Recv() {
	ctx := context.Background()
	w, err := ibrun.Init(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if err := w.Send(ctx, w.Rank(), []byte("note to self")); err != nil {
		log.Fatal(err)
	}
	from, m, err := w.Recv(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("from rank %d: %s\n", from, m)
	if err := w.Finalize(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: from rank 0: note to self
}

// A ring in which each rank waits for its left neighbour, whoever else sends.
func ExampleWorld_RecvFrom() {
	ctx := context.Background()
	w, err := ibrun.Init(ctx)
	if err != nil {
		log.Fatal(err)
	}
	left, right := (w.Rank()+w.Size()-1)%w.Size(), (w.Rank()+1)%w.Size()
	if err := w.Send(ctx, right, []byte("token")); err != nil {
		log.Fatal(err)
	}
	m, err := w.RecvFrom(ctx, left)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("rank %d has the %s of rank %d\n", w.Rank(), m, left)
	if err := w.Finalize(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: rank 0 has the token of rank 0
}

// A receiver of many long messages gives back the memory of each.
func ExampleWorld_Free() {
	ctx := context.Background()
	w, err := ibrun.Init(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if err := w.Send(ctx, w.Rank(), make([]byte, 1<<20)); err != nil {
		log.Fatal(err)
	}
	m, err := w.RecvFrom(ctx, w.Rank())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(m), "bytes")
	w.Free(m)
	if err := w.Finalize(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: 1048576 bytes
}

// What was sent before Flush has arrived when it returns.
func ExampleWorld_Flush() {
	ctx := context.Background()
	w, err := ibrun.Init(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if err := w.Send(ctx, 0, []byte("result")); err != nil {
		log.Fatal(err)
	}
	if err := w.Flush(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println("rank 0 has the result")
	if err := w.Finalize(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: rank 0 has the result
}

// The connections to both neighbours are made before the timed phase.
func ExampleWorld_Warm() {
	ctx := context.Background()
	w, err := ibrun.Init(ctx)
	if err != nil {
		log.Fatal(err)
	}
	left, right := (w.Rank()+w.Size()-1)%w.Size(), (w.Rank()+1)%w.Size()
	if err := w.Warm(left, right); err != nil {
		log.Fatal(err)
	}
	if err := w.Send(ctx, right, nil); err != nil {
		log.Fatal(err)
	}
	if _, err := w.RecvFrom(ctx, left); err != nil {
		log.Fatal(err)
	}
	fmt.Println("the first message needed no look-up")
	if err := w.Finalize(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: the first message needed no look-up
}

// What the messages of this rank have cost.
func ExampleWorld_Stats() {
	ctx := context.Background()
	w, err := ibrun.Init(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if err := w.Send(ctx, 0, []byte("hello")); err != nil {
		log.Fatal(err)
	}
	s := w.Stats()
	fmt.Printf("%d messages, %d bytes, %d look-ups, %d connections\n", s.Messages, s.Bytes, s.Lookups, s.Connections)
	if err := w.Finalize(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: 1 messages, 5 bytes, 0 look-ups, 0 connections
}

// A rank that cannot be reached is named, with the cause. ErrFailed is one of them.
func ExamplePeerError() {
	ctx := context.Background()
	w, err := ibrun.Init(ctx)
	if err != nil {
		log.Fatal(err)
	}
	err = w.Send(ctx, (w.Rank()+1)%w.Size(), []byte("work"))
	var peer *ibrun.PeerError
	switch {
	case errors.Is(err, ibrun.ErrFailed) && errors.As(err, &peer):
		fmt.Println("give the work of rank", peer.Rank, "to another")
	case err != nil:
		log.Fatal(err)
	default:
		fmt.Println("sent")
	}
	if err := w.Finalize(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: sent
}

// A job that is started with --keep-going goes on when a rank fails. Recv names each failed rank
// once. Here rank 0 waits for one message of each rank, except those that have failed. The program
// farm, in the folder examples, gives their work to others.
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

// A program that sends many small messages lets those to the same rank share packets, and sends
// what waits when it needs an answer.
func ExampleWithAggregation() {
	ctx := context.Background()
	w, err := ibrun.Init(ctx, ibrun.WithAggregation(time.Millisecond))
	if err != nil {
		log.Fatal(err)
	}
	for i := range 3 {
		for to := range w.Size() {
			if err := w.Send(ctx, to, []byte{byte(i)}); err != nil {
				log.Fatal(err)
			}
		}
	}
	if err := w.Flush(ctx); err != nil {
		log.Fatal(err)
	}
	for range 3 * w.Size() {
		from, m, err := w.Recv(ctx)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("message %d of rank %d\n", m[0], from)
	}
	if err := w.Finalize(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// message 0 of rank 0
	// message 1 of rank 0
	// message 2 of rank 0
}
