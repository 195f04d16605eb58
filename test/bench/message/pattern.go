package message

import (
	"context"
	"fmt"
	"io"
	"time"

	"ibrun"
	"ibrun/test/bench/figure"
)

// Package mpi compares the roles in this file with test/bench/mpi/c/pattern.c, a program that sends the same messages
// over MPI. Rank 0 prints a line for each length of messages: the length in bytes, and the mean time of a step or of a
// round trip in microseconds.

func printLine(bytes int, took time.Duration, count int) {
	fmt.Printf("%d %.3f\n", bytes, figure.Microseconds(took)/float64(count))
}

// stencil makes each rank exchange messages with its up to six neighbours in a three-dimensional grid. numbers holds
// the number of steps and the length of a message in bytes.
func stencil(ctx context.Context, w *ibrun.World, numbers []int) ([]row, error) {
	var list []int
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
	return nil, steps(ctx, w, list, numbers)
}

// box splits n into three factors that differ as little as possible.
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

// exchangeAll makes each rank exchange messages with all other ranks. In each step, rank r sends to rank r+1 first.
// numbers holds the number of steps and the length of a message in bytes.
func exchangeAll(ctx context.Context, w *ibrun.World, numbers []int) ([]row, error) {
	var list []int
	for i := 1; i < w.Size(); i++ {
		list = append(list, (w.Rank()+i)%w.Size())
	}
	return nil, steps(ctx, w, list, numbers)
}

// steps makes numbers[0] steps. In each step this rank sends a message of numbers[1] bytes to each peer and receives
// one from each peer. Rank 0 prints the mean time of a step.
func steps(ctx context.Context, w *ibrun.World, peers []int, numbers []int) error {
	if len(numbers) != 2 {
		return fmt.Errorf("%d numbers, want steps and bytes", len(numbers))
	}
	count, m, number := numbers[0], make([]byte, numbers[1]), 0
	step := func() error {
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
				return fmt.Errorf("a message from rank %d has wrong contents", from)
			}
			w.Free(got)
		}
		number++
		return nil
	}
	if err := step(); err != nil { // connects all pairs
		return err
	}
	if err := w.Barrier(ctx); err != nil {
		return err
	}
	took, err := figure.Time(func() error {
		if err := figure.Repeat(count, step); err != nil {
			return err
		}
		return w.Barrier(ctx)
	})
	if err == nil && w.Rank() == 0 {
		printLine(len(m), took, count)
	}
	return err
}

// curve measures round trips between two ranks, for each length of messages up to numbers[0] bytes (see Lengths).
func curve(ctx context.Context, w *ibrun.World, numbers []int) ([]row, error) {
	return nil, allLengths(w, numbers[0], func(m []byte) error { return trip(ctx, w, m) })
}

// curveOverTCP measures the same round trips as curve, over a TCP connection of package net.
func curveOverTCP(ctx context.Context, w *ibrun.World, numbers []int) ([]row, error) {
	p, err := newPlain(ctx, w, 1)
	if err != nil {
		return nil, err
	}
	return nil, allLengths(w, numbers[0], func(m []byte) error {
		if w.Rank() == 0 {
			if _, err := p.tcp.Write(m); err != nil {
				return err
			}
		}
		_, err := io.ReadFull(p.tcp, m)
		if err == nil && w.Rank() == 1 {
			_, err = p.tcp.Write(m)
		}
		return err
	})
}

// Lengths returns the lengths of messages in bytes for which round trips are measured: the powers of four up to
// maximum.
func Lengths(maximum int) (all []int) {
	for n := 1; n <= maximum; n *= 4 {
		all = append(all, n)
	}
	return all
}

func allLengths(w *ibrun.World, maximum int, trip func(m []byte) error) error {
	if w.Size() != 2 {
		return fmt.Errorf("round trips need two ranks, not %d", w.Size())
	}
	for _, size := range Lengths(maximum) {
		m, count := make([]byte, size), 200 // the same counts as in pattern.c
		switch {
		case size > 1<<20:
			count = 5
		case size > 16<<10:
			count = 40
		}
		once := func() error { return trip(m) }
		if err := figure.Repeat(count/5, once); err != nil {
			return err
		}
		took, err := figure.Time(func() error { return figure.Repeat(count, once) })
		if err != nil {
			return err
		}
		if w.Rank() == 0 {
			printLine(size, took, count)
		}
	}
	return nil
}
