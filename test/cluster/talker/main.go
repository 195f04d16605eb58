// Command talker is a rank for the fault tests: all ranks send to one, the victim, until that
// fails, and say after how long and why.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"ibrun"
)

func main() {
	victim := flag.Int("victim", 0, "the rank that all others send to")
	die := flag.Duration("die", 0, "after which the victim kills itself; 0: never")
	flag.Parse()
	// The job may be ended before a sender has said what it saw.
	signal.Ignore(syscall.SIGTERM)
	if err := run(context.Background(), *victim, *die); err != nil {
		fmt.Fprintln(os.Stderr, "talker:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, victim int, die time.Duration) error {
	w, err := ibrun.Init(ctx)
	if err != nil {
		return err
	}
	if err := w.Barrier(ctx); err != nil {
		return err
	}
	if w.Rank() == victim {
		if die > 0 {
			time.AfterFunc(die, func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) })
		}
		for {
			if _, _, err := w.Recv(ctx); err != nil {
				return err
			}
		}
	}
	fmt.Printf("rank %d sends\n", w.Rank())
	last := time.Now() // when a send last went well
	for {
		err := w.Send(ctx, victim, []byte("are you there?"))
		if err == nil {
			err = w.Flush(ctx)
		}
		var gone *ibrun.PeerError
		switch {
		case errors.As(err, &gone) && gone.Rank == victim:
			fmt.Printf("rank %d: after %d ms: %v\n", w.Rank(), time.Since(last).Milliseconds(), err)
			return nil
		case err != nil:
			return err
		}
		last = time.Now()
		<-time.After(5 * time.Millisecond)
	}
}
