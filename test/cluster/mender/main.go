// Mender is a job whose ranks print numbered lines, call a collective and look up values of each
// other without pause, while an agent above them is lost. Each rank prints how many collectives it
// has joined in the end, and what ended them.
//
//	ibrun --on-agent-loss repair -n 16 -H 'node[0001-0016]' mender -lines 100
package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"ibrun"
)

func main() {
	lines := flag.Int("lines", 100, "that each rank prints")
	every := flag.Duration("every", 30*time.Millisecond, "between two lines")
	pad := flag.Int("pad", 100, "bytes of a line beside its number")
	flag.Parse()
	if err := run(*lines, *every, *pad); err != nil {
		fmt.Fprintf(os.Stderr, "mender: %v\n", err)
		os.Exit(1)
	}
}

// outcome is what became of the collectives of a rank.
type outcome struct {
	joined int
	err    error
}

func run(lines int, every time.Duration, pad int) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	w, err := ibrun.Init(ctx)
	if err != nil {
		return err
	}
	if err := w.Put(ctx, "who", fmt.Append(nil, w.Rank())); err != nil {
		return err
	}
	more, over := make(chan bool), make(chan outcome, 1)
	go func() { over <- collectives(ctx, w, more) }()
	out := bufio.NewWriter(os.Stdout)
	padding := make([]byte, pad)
	for i := range padding {
		padding[i] = 'a' + byte(i%26)
	}
	for n := range lines {
		fmt.Fprintf(out, "rank %d line %d %s of %d\n", w.Rank(), n, padding, time.Now().UnixMilli())
		if err := out.Flush(); err != nil {
			return err
		}
		time.Sleep(every)
		if n%10 == 9 {
			if err := lookUp(ctx, w, n); err != nil {
				return err
			}
		}
	}
	close(more)
	end := <-over
	fmt.Fprintf(out, "rank %d: %d collectives, then %v\n", w.Rank(), end.joined, end.err)
	if err := out.Flush(); err != nil {
		return err
	}
	if err := w.Finalize(ctx); err != nil && end.err == nil {
		return err
	}
	return nil
}

// leastCollectives are joined however soon all lines are printed: on a busy machine the lines are
// the faster ones.
const leastCollectives = 20

// collectives joins one after the other, and checks the values of all ranks, until one fails. Rank
// 0 says with its value whether there is another one: all stop after the same.
func collectives(ctx context.Context, w *ibrun.World, more <-chan bool) (o outcome) {
	for last := false; !last; o.joined++ {
		value := binary.BigEndian.AppendUint32(nil, uint32(w.Rank()*1000003+o.joined))
		select {
		case <-more:
			stop := byte(0)
			if o.joined >= leastCollectives {
				stop = 1
			}
			value = append(value, stop)
		case <-time.After(10 * time.Millisecond):
			value = append(value, 0)
		}
		values, err := w.AllGather(ctx, value)
		if err != nil {
			o.err = err
			return o
		}
		for rank, v := range values {
			if len(v) != 5 || binary.BigEndian.Uint32(v) != uint32(rank*1000003+o.joined) {
				o.err = fmt.Errorf("collective %d has a wrong value of rank %d", o.joined, rank)
				return o
			}
		}
		last = values[0][4] == 1
	}
	return o
}

// lookUp reads what another rank has put. One that has failed has nothing.
func lookUp(ctx context.Context, w *ibrun.World, n int) error {
	other := (w.Rank() + 1 + n*7) % w.Size()
	got, err := w.Get(ctx, other, "who")
	var gone *ibrun.PeerError
	switch {
	case errors.As(err, &gone):
		return nil
	case err != nil:
		return err
	case string(got) != fmt.Sprint(other):
		return fmt.Errorf("rank %d has %q", other, got)
	}
	return nil
}
