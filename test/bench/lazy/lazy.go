// Package lazy measures the second phase beside what it is made of: round trips beside plain UDP
// and bulk beside plain TCP, in the same two processes and in turns; first messages; and the time
// until every rank may send, lazily and eagerly, for growing jobs. Every line is a ratio or has its
// peer beside it, since absolute times of one machine prove nothing. `make bench-lazy` runs it:
//
//	bench lazy IBRUN                                all but all-to-all; all agents are local
//	bench lazy all NODES PPN ROUNDS ROUNDS IBRUN DENSE SPARSE
//	                                                programs that need all addresses and few, on the
//	                                                front of a virtual cluster
//
// It refuses to build programs and to bring clusters up.
package lazy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"ibrun"
	"ibrun/test/bench/figure"
)

// The ranks' roles.
const (
	pairRole  = ":pair"
	readyRole = ":ready"
)

// Run is the subcommand.
func Run(args []string) error {
	switch {
	case len(args) == 8 && args[0] == "all":
		return all(args[1:5], args[5], args[6], args[7])
	case len(args) != 1:
		return errors.New("usage: bench lazy IBRUN | all NODES PPN ROUNDS ROUNDS IBRUN DENSE SPARSE")
	case args[0] == pairRole:
		return pair(context.Background())
	case args[0] == readyRole:
		return ready(context.Background())
	}
	return drive(args[0])
}

// drive runs the jobs.
func drive(launcher string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	run := func(args ...string) (string, error) {
		local := []string{"--launcher", "local", "--iface", "lo", "--timeout", "120"}
		c := exec.Command(launcher, append(local, args...)...)
		c.Stderr = os.Stderr
		out, err := c.Output()
		return string(out), err
	}
	out, missed := run("-n", "2", "--hosts", "n1,n2", self, "lazy", pairRole)
	fmt.Print(out)
	fmt.Println("\nuntil every rank may send, median over ranks of each of 3 runs " +
		"(4 ranks per agent, all on this machine)")
	fmt.Println("  ranks   lazy: Init   eager: Init and table   eager/lazy")
	for _, nodes := range []int{2, 4, 8, 16} {
		until := func(mode string) func() (float64, error) {
			return func() (float64, error) {
				out, err := run("-n", strconv.Itoa(4*nodes), "--hosts", fmt.Sprintf("n[1-%d]:4", nodes), mode,
					self, "lazy", readyRole)
				if err != nil {
					return 0, err
				}
				return medianOf(out)
			}
		}
		var p figure.Pair
		if err := p.Measure(3, until("--lazy"), until("--eager")); err != nil {
			return err
		}
		lazy, eager, ratio := p.Medians()
		fmt.Printf("  %5d   %7.0f us   %12.0f us   %13.2f\n", 4*nodes, lazy, eager, 1/ratio)
	}
	return missed
}

// medianOf is that of the numbers in a text.
func medianOf(text string) (float64, error) {
	var all []float64
	for word := range strings.FieldsSeq(text) {
		v, err := strconv.ParseFloat(word, 64)
		if err != nil {
			return 0, err
		}
		all = append(all, v)
	}
	return figure.Median(all), nil
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
	fmt.Println(figure.Microseconds(took))
	return w.Finalize(ctx)
}

// result is one measurement beside its floor, plain sockets.
type result struct {
	name, unit string
	figure.Pair
}

func (r *result) print() {
	a, b, ratio := r.Medians()
	fmt.Printf("%-28s %10.2f %s   plain %10.2f %s   ratio %.2f\n", r.name, a, r.unit, b, r.unit, ratio)
}

// Bounds of two ranks on one machine, beside plain sockets.
const (
	mostTrip  = 1.5 // of the time of a round trip
	leastBulk = 0.8 // of the bytes in a second
)

// How much is measured: rounds of each way; round trips, and bytes one way, in a round.
const (
	rounds = 15
	count  = 2000
	length = 128 << 20
)

// pair is two ranks on two nodes.
func pair(ctx context.Context) error {
	w, err := ibrun.Init(ctx)
	if err != nil {
		return err
	}
	var tree []float64
	for range 50 {
		took, err := figure.Time(func() error { return w.Barrier(ctx) })
		if err != nil {
			return err
		}
		tree = append(tree, figure.Microseconds(took))
	}
	first, err := figure.Time(func() error { return both(ctx, w, 1) })
	if err != nil {
		return err
	}
	p, err := newPlain(ctx, w)
	if err != nil {
		return err
	}
	small := &result{name: "64-byte round trip", unit: "us"}
	err = small.Measure(rounds,
		roundTrip(func() error { return both(ctx, w, count) }),
		roundTrip(func() error { return p.datagrams(w.Rank(), count) }))
	results := []*result{small}
	for _, b := range []struct {
		name  string
		chunk int
	}{{"bulk, 16 KiB messages", 16 << 10}, {"bulk, 4 MiB messages", 4 << 20}} {
		if err != nil {
			return err
		}
		bulk, chunks := &result{name: b.name, unit: "MB/s"}, length/b.chunk
		err = bulk.Measure(rounds,
			bandwidth(func() error { return stream(ctx, w, chunks, b.chunk) }),
			bandwidth(func() error { return p.stream(w.Rank(), chunks, b.chunk) }))
		results = append(results, bulk)
	}
	if err != nil {
		return err
	}
	bounds := figure.Bounds{To: os.Stdout}
	if w.Rank() == 0 {
		for _, r := range results {
			r.print()
		}
		warm, _, ratio := small.Medians()
		bounds.AtMost(small.name+" on one machine, beside UDP", ratio, mostTrip)
		for _, r := range results[1:] {
			_, _, ratio := r.Medians()
			bounds.AtLeast(r.name+" on one machine, beside TCP", ratio, leastBulk)
		}
		fmt.Printf("%-28s %10.2f us   look-up, handshake, message and answer; a round trip through the tree %.2f us, "+
			"of the warm pair %.2f us\n",
			"first message and answer", figure.Microseconds(first), figure.Median(tree), warm)
		stats, err := json.Marshal(w.Stats())
		if err != nil {
			return err
		}
		fmt.Printf("%-28s %s\n", "counts of rank 0", stats)
	}
	return errors.Join(w.Finalize(ctx), bounds.Err())
}

// roundTrip measures a function that makes count of them, in microseconds of each.
func roundTrip(f func() error) func() (float64, error) {
	return func() (float64, error) {
		took, err := figure.Time(f)
		return figure.Microseconds(took) / count, err
	}
}

// bandwidth measures a function that sends length bytes, in MB/s.
func bandwidth(f func() error) func() (float64, error) {
	return func() (float64, error) {
		took, err := figure.Time(f)
		return length / 1e6 / took.Seconds(), err
	}
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
