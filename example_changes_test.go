package ibrun_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math"

	"ibrun"
)

// A program whose work can be dealt anew calls Resize where that suits it. In a job of one rank
// there is nothing to do.
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

// A change that waits is seen without a message.
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

// A rank that has come to a running job takes from the others how far they are.
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

// A rank that was restarted tells rank 0, which gives it its work again.
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

// Ranks return to their last checkpoint when one of them was restarted. The collective by which
// they agree on one fails if another rank is restarted meanwhile.
func ExampleWorld_Restarts() {
	ctx := context.Background()
	w, err := ibrun.Init(ctx)
	if err != nil {
		log.Fatal(err)
	}
	mine := []byte{17} // the number of this rank's last checkpoint
	steps, err := w.AllGather(ctx, mine)
	for errors.Is(err, ibrun.ErrRestarted) {
		w.Restarts() // acknowledged: Recv does not fail for them any more
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

// All ranks return to the last checkpoint when one finds that they have gone astray. Only a job
// that restarts ranks can do so.
func ExampleWorld_Rollback() {
	ctx := context.Background()
	w, err := ibrun.Init(ctx)
	if err != nil {
		log.Fatal(err)
	}
	energy := math.NaN()
	if math.IsNaN(energy) {
		err := w.Rollback("the energy is not a number") // returns only if nobody is restarted
		fmt.Println(errors.Is(err, ibrun.ErrNoRestart))
	}
	if err := w.Finalize(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: true
}

// In a job that is started with --on-failure restart, a message may meet a rank that was restarted.
// It was not sent: the new start does not know what it is about.
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
