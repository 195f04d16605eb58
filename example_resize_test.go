package ibrun_test

import (
	"context"
	"fmt"

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
