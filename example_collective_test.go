package ibrun_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"ibrun"
)

// No rank leaves a barrier before all have entered it. The time limit is for this rank alone: if it
// passes, this rank has entered the barrier nevertheless.
func ExampleWorld_Barrier() {
	ctx := context.Background()
	w, err := ibrun.Init(ctx)
	if err != nil {
		log.Fatal(err)
	}
	limited, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	switch err := w.Barrier(limited); {
	case errors.Is(err, context.DeadlineExceeded):
		log.Fatal("some rank takes more than a minute")
	case err != nil:
		log.Fatal(err)
	}
	fmt.Println("all ranks are ready")
	if err := w.Finalize(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: all ranks are ready
}

// Rank 0 has the parameters, and every rank needs them.
func ExampleWorld_Broadcast() {
	ctx := context.Background()
	w, err := ibrun.Init(ctx)
	if err != nil {
		log.Fatal(err)
	}
	var parameters []byte
	if w.Rank() == 0 {
		parameters = []byte("steps=100")
	}
	parameters, err = w.Broadcast(ctx, 0, parameters)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("rank %d runs with %s\n", w.Rank(), parameters)
	if err := w.Finalize(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: rank 0 runs with steps=100
}

// Rank 0 prints what each rank has found, by rank.
func ExampleWorld_Gather() {
	ctx := context.Background()
	w, err := ibrun.Init(ctx)
	if err != nil {
		log.Fatal(err)
	}
	results, err := w.Gather(ctx, 0, fmt.Appendf(nil, "result %d", 10*w.Rank()))
	if err != nil {
		log.Fatal(err)
	}
	for rank, result := range results { // none but at rank 0
		fmt.Printf("rank %d: %s\n", rank, result)
	}
	if err := w.Finalize(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: rank 0: result 0
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

// Rank 0 deals out the work.
func ExampleWorld_Scatter() {
	ctx := context.Background()
	w, err := ibrun.Init(ctx)
	if err != nil {
		log.Fatal(err)
	}
	var parts [][]byte
	if w.Rank() == 0 {
		for rank := range w.Size() {
			parts = append(parts, fmt.Appendf(nil, "part %d", rank))
		}
	}
	part, err := w.Scatter(ctx, 0, parts)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("rank %d has %s\n", w.Rank(), part)
	if err := w.Finalize(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: rank 0 has part 0
}

// Each rank has something for every rank.
func ExampleWorld_AllToAll() {
	ctx := context.Background()
	w, err := ibrun.Init(ctx)
	if err != nil {
		log.Fatal(err)
	}
	values := make([][]byte, w.Size())
	for to := range values {
		values[to] = fmt.Appendf(nil, "from %d to %d", w.Rank(), to)
	}
	got, err := w.AllToAll(ctx, values)
	if err != nil {
		log.Fatal(err)
	}
	for _, value := range got {
		fmt.Printf("%s\n", value)
	}
	if err := w.Finalize(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: from 0 to 0
}

// A collective that fails does so for every rank. The next one can succeed.
func ExampleCollectiveError() {
	ctx := context.Background()
	w, err := ibrun.Init(ctx)
	if err != nil {
		log.Fatal(err)
	}
	err = w.Barrier(ctx)
	var failed *ibrun.CollectiveError
	switch {
	case errors.As(err, &failed):
		fmt.Println(failed.Op, "failed for all ranks:", failed.Err)
	case err != nil:
		log.Fatal(err)
	default:
		fmt.Println("all ranks were there")
	}
	if err := w.Finalize(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: all ranks were there
}

// Rank 0 puts the address of its service on the key-value store. Other ranks get it there, and wait
// until it is there.
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
	fmt.Printf("rank %d uses %s\n", w.Rank(), where)
	if err := w.Finalize(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: rank 0 uses http://127.0.0.1:8080
}

// A key that its rank never puts is waited for until that rank ends, or the context does.
func ExampleWorld_Get() {
	ctx := context.Background()
	w, err := ibrun.Init(ctx)
	if err != nil {
		log.Fatal(err)
	}
	limited, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	_, err = w.Get(limited, 0, "never put")
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	if err := w.Finalize(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: true
}
