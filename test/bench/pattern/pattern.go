// Package pattern is a rank of the patterns that are held against programs of MPI, whose source is
// test/bench/mpi/c/pattern.c:
//
//	bench pattern stencil3d|alltoall STEPS BYTES   microseconds of a step
//	bench pattern trips|tcp MOST                   bytes and microseconds of a round trip, a line for each size
//
// tcp is a connection of package net between the two ranks. All others go by package ibrun. It
// refuses to start jobs.
package pattern

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"ibrun"
	"ibrun/test/bench/figure"
)

// Run is the subcommand: one rank.
func Run(args []string) error {
	var numbers []int
	for _, a := range args[min(1, len(args)):] {
		n, err := strconv.Atoi(a)
		if err != nil || n < 1 {
			return fmt.Errorf("invalid number: %q", a)
		}
		numbers = append(numbers, n)
	}
	var run func(ctx context.Context, w *ibrun.World) error
	switch {
	case len(args) == 3 && args[0] == "stencil3d":
		run = func(ctx context.Context, w *ibrun.World) error { return steps(ctx, w, neighbours(w), numbers) }
	case len(args) == 3 && args[0] == "alltoall":
		run = func(ctx context.Context, w *ibrun.World) error { return steps(ctx, w, everybody(w), numbers) }
	case len(args) == 2 && (args[0] == "trips" || args[0] == "tcp"):
		run = func(ctx context.Context, w *ibrun.World) error { return trips(ctx, w, args[0] == "tcp", numbers[0]) }
	default:
		return errors.New("usage: bench mpi pattern stencil3d|alltoall STEPS BYTES | trips|tcp MOST")
	}
	ctx := context.Background()
	w, err := ibrun.Init(ctx)
	if err != nil {
		return err
	}
	if err := run(ctx, w); err != nil {
		return fmt.Errorf("rank %d: %w", w.Rank(), err)
	}
	return w.Finalize(ctx)
}

// neighbours are the ranks beside this one in an open box.
func neighbours(w *ibrun.World) (list []int) {
	stride := 1
	for _, n := range box(w.Size()) {
		at := w.Rank() / stride % n
		if at > 0 {
			list = append(list, w.Rank()-stride)
		}
		if at < n-1 {
			list = append(list, w.Rank()+stride)
		}
		stride *= n
	}
	return list
}

// box splits n ranks into three factors as near to each other as they come.
func box(n int) (dims [3]int) {
	dims = [3]int{n, 1, 1}
	best := n
	for x := 1; x*x*x <= n; x++ {
		for y := x; n%x == 0 && x*y*y <= n; y++ {
			if n/x%y == 0 && n/x/y-x < best {
				dims, best = [3]int{n / x / y, y, x}, n/x/y-x
			}
		}
	}
	return dims
}

// everybody are all others, the next one first.
func everybody(w *ibrun.World) (list []int) {
	for i := 1; i < w.Size(); i++ {
		list = append(list, (w.Rank()+i)%w.Size())
	}
	return list
}

// steps exchanges messages with the same peers again and again: number of steps, and bytes.
func steps(ctx context.Context, w *ibrun.World, peers []int, numbers []int) error {
	count, m := numbers[0], make([]byte, numbers[1])
	step := func(number int) error {
		for i := range m {
			m[i] = byte(w.Rank() + number)
		}
		for _, to := range peers {
			if err := w.Send(ctx, to, m); err != nil {
				return err
			}
		}
		for _, from := range peers {
			got, err := w.RecvFrom(ctx, from)
			if err != nil {
				return err
			}
			if len(got) != len(m) || got[len(m)-1] != byte(from+number) {
				return fmt.Errorf("a wrong message from rank %d", from)
			}
			w.Free(got)
		}
		return nil
	}
	if err := step(0); err != nil { // connects all
		return err
	}
	if err := w.Barrier(ctx); err != nil {
		return err
	}
	took, err := figure.Time(func() error {
		for i := range count {
			if err := step(1 + i); err != nil {
				return err
			}
		}
		return w.Barrier(ctx)
	})
	if err == nil && w.Rank() == 0 {
		line(len(m), took, count)
	}
	return err
}

func line(bytes int, took time.Duration, count int) {
	fmt.Printf("%d %.3f\n", bytes, figure.Microseconds(took)/float64(count))
}
