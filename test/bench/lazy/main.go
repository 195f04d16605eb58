// Command lazy measures the second phase beside what it is made of: round trips beside plain UDP and bulk beside plain TCP, in the
// same two processes and in turns; first messages; and the time until every rank may send, lazily and eagerly, for growing jobs.
// `make bench-lazy` runs it. Every line is a ratio or has its peer beside it, since absolute times of one machine prove nothing.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"ibrun"
)

func main() {
	var err error
	switch {
	case len(os.Args) == 2 && os.Args[1] == ":pair":
		err = pair(context.Background())
	case len(os.Args) == 2 && os.Args[1] == ":ready":
		err = ready(context.Background())
	case len(os.Args) == 2:
		err = drive(os.Args[1])
	default:
		err = fmt.Errorf("usage: lazy IBRUN")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// drive runs the jobs.
func drive(launcher string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	run := func(args ...string) (string, error) {
		c := exec.Command(launcher, append([]string{"--launcher", "local", "--iface", "lo", "--timeout", "120"}, args...)...)
		c.Stderr = os.Stderr
		out, err := c.Output()
		return string(out), err
	}
	out, err := run("-n", "2", "--hosts", "n1,n2", self, ":pair")
	fmt.Print(out)
	if err != nil {
		return err
	}
	fmt.Println("\nuntil every rank may send, median over ranks of each of 3 runs (4 ranks per agent, all on this machine)")
	fmt.Println("  ranks   lazy: Init   eager: Init and table   eager/lazy")
	for _, nodes := range []int{2, 4, 8, 16} {
		hosts := fmt.Sprintf("n[1-%d]:4", nodes)
		var took [2][]float64
		for range 3 {
			for i, mode := range []string{"--lazy", "--eager"} {
				out, err := run("-n", strconv.Itoa(4*nodes), "--hosts", hosts, mode, self, ":ready")
				if err != nil {
					return err
				}
				var all []float64
				for _, line := range strings.Fields(out) {
					v, err := strconv.ParseFloat(line, 64)
					if err != nil {
						return err
					}
					all = append(all, v)
				}
				took[i] = append(took[i], median(all))
			}
		}
		lazy, eager := median(took[0]), median(took[1])
		fmt.Printf("  %5d   %7.0f us   %12.0f us   %13.2f\n", 4*nodes, lazy, eager, eager/lazy)
	}
	return nil
}

func median(v []float64) float64 {
	v = slices.Clone(v)
	slices.Sort(v)
	return v[len(v)/2]
}

// ready prints how long this rank took until it may send: Init, and in eager
// mode the table, for which a question to the farthest node waits.
func ready(ctx context.Context) error {
	began := time.Now()
	w, err := ibrun.Init(ctx)
	if err != nil {
		return err
	}
	took := time.Since(began)
	if w.Eager() {
		if err := w.Send(ctx, (w.Rank()+w.Size()/2)%w.Size(), []byte("x")); err != nil {
			return err
		}
		if err := w.Flush(ctx); err != nil {
			return err
		}
		took = time.Since(began)
	}
	fmt.Println(float64(took.Nanoseconds()) / 1e3)
	return w.Finalize(ctx)
}

// result is one measurement with its floor.
type result struct {
	name        string
	ours, plain []float64 // of each round
	unit        string
	bound       string
}

func (r result) print() {
	a, b := median(r.ours), median(r.plain)
	fmt.Printf("%-28s %10.2f %s   plain %10.2f %s   ratio %.2f   (bound %s)\n", r.name, a, r.unit, b, r.unit, a/b, r.bound)
}

const rounds = 15

// pair is two ranks on two nodes.
func pair(ctx context.Context) error {
	w, err := ibrun.Init(ctx)
	if err != nil {
		return err
	}
	var tree []float64
	for range 50 {
		took, err := timed(func() error { return w.Barrier(ctx) })
		if err != nil {
			return err
		}
		tree = append(tree, float64(took.Nanoseconds())/1e3)
	}
	first, err := timed(func() error { return both(ctx, w, 1) })
	if err != nil {
		return err
	}
	p, err := newPlain(ctx, w)
	if err != nil {
		return err
	}
	small := result{name: "64-byte round trip", unit: "us", bound: "1.5"}
	medium := result{name: "bulk, 16 KiB messages", unit: "MB/s", bound: "0.8"}
	bulk := result{name: "bulk, 4 MiB messages", unit: "MB/s", bound: "0.8"}
	const count, chunks, chunk = 2000, 32, 4 << 20
	for range rounds {
		ours, err := timed(func() error { return both(ctx, w, count) })
		if err != nil {
			return err
		}
		plain, err := timed(func() error { return p.datagrams(w.Rank(), count) })
		if err != nil {
			return err
		}
		small.ours = append(small.ours, float64(ours.Nanoseconds())/1e3/count)
		small.plain = append(small.plain, float64(plain.Nanoseconds())/1e3/count)
	}
	for _, b := range []struct {
		*result
		chunks, chunk int
	}{{&medium, chunks * chunk / (16 << 10), 16 << 10}, {&bulk, chunks, chunk}} {
		for range rounds {
			ours, err := timed(func() error { return stream(ctx, w, b.chunks, b.chunk) })
			if err != nil {
				return err
			}
			plain, err := timed(func() error { return p.stream(w.Rank(), b.chunks, b.chunk) })
			if err != nil {
				return err
			}
			b.ours = append(b.ours, chunks*chunk/1e6/ours.Seconds())
			b.plain = append(b.plain, chunks*chunk/1e6/plain.Seconds())
		}
	}
	if w.Rank() == 0 {
		small.print()
		medium.print()
		bulk.print()
		fmt.Printf("%-28s %10.2f us   look-up, handshake, message and answer; a round trip through the tree %.2f us, of the warm pair %.2f us\n",
			"first message and answer", float64(first.Nanoseconds())/1e3, median(tree), median(small.ours))
		stats, err := json.Marshal(w.Stats())
		if err != nil {
			return err
		}
		fmt.Printf("%-28s %s\n", "counts of rank 0", stats)
	}
	return w.Finalize(ctx)
}

func timed(f func() error) (time.Duration, error) {
	began := time.Now()
	err := f()
	return time.Since(began), err
}

func both(ctx context.Context, w *ibrun.World, count int) error {
	if w.Rank() == 0 {
		return trips(ctx, w, count, 64)
	}
	return echo(ctx, w, count)
}

func trips(ctx context.Context, w *ibrun.World, count, size int) error {
	m := make([]byte, size)
	for range count {
		if err := w.Send(ctx, 1, m); err != nil {
			return err
		}
		if _, err := w.RecvFrom(ctx, 1); err != nil {
			return err
		}
	}
	return nil
}

func echo(ctx context.Context, w *ibrun.World, count int) error {
	for range count {
		m, err := w.RecvFrom(ctx, 0)
		if err != nil {
			return err
		}
		if err := w.Send(ctx, 0, m); err != nil {
			return err
		}
	}
	return nil
}

// stream sends long messages one way and waits for a word at the end.
func stream(ctx context.Context, w *ibrun.World, chunks, chunk int) error {
	if w.Rank() == 1 {
		for range chunks {
			m, err := w.RecvFrom(ctx, 0)
			if err != nil {
				return err
			}
			w.Free(m)
		}
		return w.Send(ctx, 0, []byte("done"))
	}
	m := make([]byte, chunk)
	for range chunks {
		if err := w.Send(ctx, 1, m); err != nil {
			return err
		}
	}
	_, err := w.RecvFrom(ctx, 1)
	return err
}
