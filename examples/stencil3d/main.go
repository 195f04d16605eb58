// Command stencil3d lays the ranks over a box and exchanges faces with up to six neighbours, again
// and again: the pattern of most simulations, and the one that lazy connections are for.
//
//	ibrun -n 64 --hosts 'node[0001-0004]' --stats ./stencil3d -steps 10
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"ibrun"
)

func main() {
	steps := flag.Int("steps", 10, "exchanges")
	face := flag.Int("face", 1024, "bytes of a face")
	flag.Parse()
	if err := run(context.Background(), *steps, *face); err != nil {
		fmt.Fprintln(os.Stderr, "stencil3d:", err)
		os.Exit(1)
	}
}

// box splits n ranks into three factors as near to each other as they come.
func box(n int) (dims [3]int) {
	dims = [3]int{n, 1, 1}
	best := n
	for x := 1; x*x*x <= n; x++ {
		if n%x != 0 {
			continue
		}
		for y := x; x*y*y <= n; y++ {
			if n/x%y == 0 && n/x/y-x < best {
				dims, best = [3]int{n / x / y, y, x}, n/x/y-x
			}
		}
	}
	return dims
}

// neighbours are the ranks beside one in each direction; the box is open.
func neighbours(rank int, dims [3]int) (list []int) {
	stride := 1
	for _, n := range dims {
		at := rank / stride % n
		if at > 0 {
			list = append(list, rank-stride)
		}
		if at < n-1 {
			list = append(list, rank+stride)
		}
		stride *= n
	}
	return list
}

func run(ctx context.Context, steps, face int) error {
	w, err := ibrun.Init(ctx)
	if err != nil {
		return err
	}
	dims := box(w.Size())
	list := neighbours(w.Rank(), dims)
	if err := w.Warm(list...); err != nil {
		return err
	}
	m := make([]byte, face)
	for step := range steps {
		for i := range m {
			m[i] = byte(w.Rank() + step)
		}
		for _, to := range list {
			if err := w.Send(ctx, to, m); err != nil {
				return err
			}
		}
		for _, from := range list {
			got, err := w.RecvFrom(ctx, from)
			if err != nil {
				return err
			}
			if len(got) != face || face > 0 && got[face-1] != byte(from+step) {
				return fmt.Errorf("rank %d, step %d: a wrong face from rank %d", w.Rank(), step, from)
			}
		}
	}
	if w.Rank() == 0 {
		fmt.Printf("%d steps over a box of %d x %d x %d ranks\n", steps, dims[0], dims[1], dims[2])
	}
	return w.Finalize(ctx)
}
