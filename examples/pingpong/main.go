// Command pingpong measures round trips between rank 0 and the last rank: the first one, with
// everything that has to be found and opened for it, and then the median for each length.
//
//	ibrun -n 2 --hosts node0001,node0002 ./pingpong
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"time"

	"ibrun"
)

func main() {
	most := flag.Int("trips", 2000, "round trips of each length, at most; 16 at least")
	longest := flag.Int("longest", 4<<20, "bytes of a message, at most")
	flag.Parse()
	if err := run(context.Background(), *most, *longest); err != nil {
		fmt.Fprintln(os.Stderr, "pingpong:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, most, longest int) error {
	w, err := ibrun.Init(ctx)
	if err != nil {
		return err
	}
	last := w.Size() - 1
	for _, size := range []int{8, 64, 1024, 16 << 10, 256 << 10, 4 << 20} {
		if size > longest {
			break
		}
		trips := max(16, min(most, (16<<20)/size))
		switch w.Rank() {
		case 0:
			if err := ping(ctx, w, last, make([]byte, size), trips); err != nil {
				return err
			}
		case last:
			for range trips {
				m, err := w.RecvFrom(ctx, 0)
				if err != nil {
					return err
				}
				if err := w.Send(ctx, 0, m); err != nil {
					return err
				}
			}
		}
	}
	return w.Finalize(ctx)
}

func ping(ctx context.Context, w *ibrun.World, to int, m []byte, trips int) error {
	took := make([]time.Duration, trips)
	for i := range took {
		began := time.Now()
		if err := w.Send(ctx, to, m); err != nil {
			return err
		}
		back, err := w.RecvFrom(ctx, to)
		if err != nil {
			return err
		}
		if len(back) != len(m) {
			return fmt.Errorf("%d bytes came back of %d", len(back), len(m))
		}
		took[i] = time.Since(began)
	}
	first := took[0]
	slices.Sort(took)
	median := took[trips/2]
	fmt.Printf("%8d bytes: first %10v  median %10v  %8.1f MB/s each way\n", len(m), first, median,
		2*float64(len(m))/median.Seconds()/1e6)
	return nil
}
