package ibrun_test

import (
	"context"
	"fmt"
	"log"

	"ibrun"
)

// A rank that waits for too long can say who is missing.
func ExampleWorld_Overview() {
	ctx := context.Background()
	world, err := ibrun.Init(ctx)
	if err != nil {
		log.Fatal(err)
	}
	o, err := world.Overview(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, g := range o.Groups {
		fmt.Printf("count %d: %s, ranks %s\n", g.Count, g.State, g.Ranks)
	}
	if err := world.Finalize(ctx); err != nil {
		log.Fatal(err)
	}
	_, err = world.Overview(ctx)
	fmt.Println(err)
	// Output:
	// count 1: joined, ranks 0
	// finalized
}
