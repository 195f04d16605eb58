package ibrun_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math"

	"ibrun"
)

// A program that can redistribute its work calls Resize where a change of the job's size may take effect. In this job
// of one rank, the user has requested no change.
func ExampleWorld_Resize() {
	ctx := context.Background()
	w, err := ibrun.Init(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	change, err := w.Resize(ctx, func(r ibrun.Resize) error {
		fmt.Printf("what ranks from %d on have goes to the others\n", r.New)
		return nil
	})
	fmt.Println(change.Old, change.New, err)
	fmt.Println(w.Finalize(ctx))
	// Output:
	// 1 1 <nil>
	// <nil>
}

// Resizes shows a requested change of the job's size without communication. In this job there is none.
func ExampleWorld_Resizes() {
	ctx := context.Background()
	w, err := ibrun.Init(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(w.Resizes())
	fmt.Println(w.Finalize(ctx))
	// Output:
	// {1 1}
	// <nil>
}

// A rank can tell whether it has joined a running job, and must get its data from the other ranks, or has been there
// from the start.
func ExampleWorld_Resized() {
	ctx := context.Background()
	w, err := ibrun.Init(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	if w.Resized() == 0 {
		fmt.Println("begin")
	}
	fmt.Println(w.Finalize(ctx))
	// Output:
	// begin
	// <nil>
}

func ExampleResize_Grows() {
	fmt.Println(ibrun.Resize{Old: 64, New: 96}.Grows(), ibrun.Resize{Old: 96, New: 96}.Grows())
	// Output: true false
}

func ExampleResize_Shrinks() {
	fmt.Println(ibrun.Resize{Old: 96, New: 64}.Shrinks(), ibrun.Resize{Old: 64, New: 96}.Shrinks())
	// Output: true false
}

// A rank that was restarted continues from its last checkpoint.
func ExampleWorld_Restarted() {
	ctx := context.Background()
	w, err := ibrun.Init(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if w.Restarted() == 0 {
		fmt.Println("from the beginning")
	} else {
		fmt.Println("from the last checkpoint")
	}
	if err := w.Finalize(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: from the beginning
}

// All ranks return to their last checkpoint when one of them was restarted. They agree on the checkpoint in a
// collective. It fails if another rank is restarted meanwhile, and is then called again.
func ExampleWorld_Restarts() {
	ctx := context.Background()
	w, err := ibrun.Init(ctx)
	if err != nil {
		log.Fatal(err)
	}
	mine := []byte{17} // the number of this rank's last checkpoint
	steps, err := w.AllGather(ctx, mine)
	for errors.Is(err, ibrun.ErrRestarted) {
		w.Restarts() // acknowledges the restarts, so that Recv does not report them
		steps, err = w.AllGather(ctx, mine)
	}
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("go on from", steps[0][0])
	if err := w.Finalize(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: go on from 17
}

// A rank that detects a wrong result makes all ranks return to their last checkpoint. Rollback fails in this job, which
// was not started with --on-failure restart or restart-all.
func ExampleWorld_Rollback() {
	ctx := context.Background()
	w, err := ibrun.Init(ctx)
	if err != nil {
		log.Fatal(err)
	}
	energy := math.NaN()
	if math.IsNaN(energy) {
		err := w.Rollback("the energy is not a number") // returns only if the ranks are not restarted
		fmt.Println(errors.Is(err, ibrun.ErrNoRestart))
	}
	if err := w.Finalize(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: true
}

// In a job that is started with --on-failure restart, Send returns a RestartError if the peer was restarted. The
// message was not sent, because the new process of the peer would not know its context.
func ExampleRestartError() {
	ctx := context.Background()
	w, err := ibrun.Init(ctx)
	if err != nil {
		log.Fatal(err)
	}
	err = w.Send(ctx, (w.Rank()+1)%w.Size(), []byte("work"))
	var restarted *ibrun.RestartError
	switch {
	case errors.As(err, &restarted):
		fmt.Println("tell rank", restarted.Rank, "where to begin")
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
