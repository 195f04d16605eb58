package ibrun_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"time"

	"ibrun"
)

// The examples run as they are: outside ibrun, a program is a job of one rank, which is its own
// neighbour.

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

// The package logs to the logger of the program, at the level that the program wants.
func ExampleWithLogger() {
	ctx := context.Background()
	toStdout := slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: withoutTime})
	w, err := ibrun.Init(ctx, ibrun.WithLogger(slog.New(toStdout)))
	if err != nil {
		log.Fatal(err)
	}
	if err := w.Finalize(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: level=INFO msg="joined the job" rank=0 size=1 job=""
}

// withoutTime leaves the time out of log records.
func withoutTime(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}

// Each rank takes its share of the items, which differ by one at most.
func ExampleWorld_Rank() {
	ctx := context.Background()
	w, err := ibrun.Init(ctx)
	if err != nil {
		log.Fatal(err)
	}
	const items = 10
	first, end := items*w.Rank()/w.Size(), items*(w.Rank()+1)/w.Size()
	fmt.Printf("rank %d: items %d to %d\n", w.Rank(), first, end-1)
	if err := w.Finalize(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: rank 0: items 0 to 9
}

// The ranks of the job.
func ExampleWorld_Size() {
	ctx := context.Background()
	w, err := ibrun.Init(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("this job has", w.Size(), "rank")
	if err := w.Finalize(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: this job has 1 rank
}

// One rank of each node prepares what the ranks of the node share.
func ExampleWorld_LocalRank() {
	ctx := context.Background()
	w, err := ibrun.Init(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if w.LocalRank() == 0 {
		fmt.Println("making the scratch directory of this node")
	}
	if err := w.Finalize(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: making the scratch directory of this node
}

// The ranks of a node divide its memory.
func ExampleWorld_LocalSize() {
	ctx := context.Background()
	w, err := ibrun.Init(ctx)
	if err != nil {
		log.Fatal(err)
	}
	const memory = 64 // GiB
	fmt.Println("each rank may use", memory/w.LocalSize(), "GiB")
	if err := w.Finalize(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: each rank may use 64 GiB
}

// A rank counts those that it shares its node with. A number that is no rank is an error.
func ExampleWorld_NodeOf() {
	ctx := context.Background()
	w, err := ibrun.Init(ctx)
	if err != nil {
		log.Fatal(err)
	}
	here, err := w.NodeOf(w.Rank())
	if err != nil {
		log.Fatal(err)
	}
	together := 0
	for rank := range w.Size() {
		if node, err := w.NodeOf(rank); err == nil && node == here {
			together++
		}
	}
	_, err = w.NodeOf(w.Size())
	fmt.Println(together == w.LocalSize(), errors.Is(err, ibrun.ErrNoSuchRank))
	if err := w.Finalize(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: true true
}

// Look-ups cost nothing when every node has the whole address table.
func ExampleWorld_Eager() {
	ctx := context.Background()
	w, err := ibrun.Init(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if !w.Eager() {
		fmt.Println("addresses are looked up when they are needed")
	}
	if err := w.Finalize(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: addresses are looked up when they are needed
}

// A rank that waits in Finalize for others that still compute gives up after a minute. It has left
// the job in any case.
func ExampleWorld_Finalize() {
	ctx := context.Background()
	w, err := ibrun.Init(ctx)
	if err != nil {
		log.Fatal(err)
	}
	limited, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := w.Finalize(limited); err != nil {
		log.Print("not all ranks have finished: ", err)
	}
	fmt.Println(errors.Is(w.Barrier(ctx), ibrun.ErrFinalized))
	// Output: true
}

// A rank that cannot go on ends the job. It does not return, so this example is only compiled.
func ExampleWorld_Abort() {
	ctx := context.Background()
	w, err := ibrun.Init(ctx)
	if err != nil {
		log.Fatal(err)
	}
	input, err := os.ReadFile("input")
	if err != nil {
		w.Abort(3, err.Error()) // ibrun prints the text, and exits with 3
	}
	fmt.Println(len(input))
	if err := w.Finalize(ctx); err != nil {
		log.Fatal(err)
	}
}

// What Init fails with is the agent's, or the network's. A process that cannot join must not go on
// alone.
func ExampleAgentError() {
	ctx := context.Background()
	w, err := ibrun.Init(ctx)
	var agent *ibrun.AgentError
	if errors.As(err, &agent) {
		log.Fatal("the agent of this node: ", agent.Err)
	} else if err != nil {
		log.Fatal(err)
	}
	fmt.Println("joined")
	if err := w.Finalize(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: joined
}
