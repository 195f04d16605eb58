package between

import (
	"context"
	"fmt"
	"slices"
	"time"

	"ibrun"
	"ibrun/test/bench/figure"
)

// count is the number of round trips in a round, and bulk the bytes of a stream.
const (
	count = 2000
	bulk  = 64 << 20
)

// trips measures round trips of two ranks.
func trips(ctx context.Context, w *ibrun.World, rounds int) ([]row, error) {
	p, err := newPlain(ctx, w, 1)
	if err != nil {
		return nil, err
	}
	var rows []row
	for _, size := range []int{64, 1 << 10} {
		m := make([]byte, size)
		var median, late figure.Pair
		var spent cpu
		for round := range rounds + 1 { // the first one warms both
			ours, err := spread(&spent.ours, func() error { return trip(ctx, w, m) })
			if err != nil {
				return nil, err
			}
			theirs, err := spread(&spent.theirs, func() error { return p.datagram(w.Rank(), size) })
			if err != nil {
				return nil, err
			}
			if round > 0 {
				median.Ours, median.Theirs = append(median.Ours, at(ours, 50)), append(median.Theirs, at(theirs, 50))
				late.Ours, late.Theirs = append(late.Ours, at(ours, 99)), append(late.Theirs, at(theirs, 99))
			}
		}
		usual := atMost(fmt.Sprintf("round trip of %s, median, beside UDP", bytesOf(size)), "us", median, 1.5)
		if usual.CPU, err = spent.ratio(ctx, w, usual.What); err != nil {
			return nil, err
		}
		rows = append(rows, usual,
			atMost(fmt.Sprintf("round trip of %s, p99, beside UDP", bytesOf(size)), "us", late, 2))
	}
	return rows, nil
}

// spread times each of many calls, in microseconds, sorted.
func spread(spent *time.Duration, f func() error) ([]float64, error) {
	all := make([]float64, 0, count)
	defer func(before time.Duration) { *spent += used() - before }(used())
	for range count {
		took, err := figure.Time(f)
		if err != nil {
			return nil, err
		}
		all = append(all, figure.Microseconds(took))
	}
	slices.Sort(all)
	return all, nil
}

func at(sorted []float64, percent int) float64 { return sorted[len(sorted)*percent/100] }

// trip is one round trip of a message, at either end.
func trip(ctx context.Context, w *ibrun.World, m []byte) error {
	if w.Rank() == 0 {
		if err := w.Send(ctx, 1, m); err != nil {
			return err
		}
		back, err := w.RecvFrom(ctx, 1)
		if err == nil && len(back) != len(m) {
			err = fmt.Errorf("%d bytes came back, not %d", len(back), len(m))
		}
		return err
	}
	back, err := w.RecvFrom(ctx, 0)
	if err != nil {
		return err
	}
	return w.Send(ctx, 0, back)
}

// streams measures long messages in a row, from rank 0 to rank 1.
func streams(ctx context.Context, w *ibrun.World, rounds int) ([]row, error) {
	p, err := newPlain(ctx, w, 1)
	if err != nil {
		return nil, err
	}
	var rows []row
	for _, s := range []struct {
		size  int
		bound float64
	}{{16 << 10, 0.7}, {64 << 10, 0.8}, {1 << 20, 0.9}, {bulk, 0.9}} {
		messages, m := bulk/s.size, make([]byte, s.size)
		rate := func(f func() error) func() (float64, error) {
			return func() (float64, error) {
				took, err := figure.Time(f)
				return bulk / 1e6 / took.Seconds(), err
			}
		}
		var pair figure.Pair
		var spent cpu
		err := pair.Measure(rounds+1,
			charge(&spent.ours, rate(func() error { return inRow(ctx, w, messages, m) })),
			charge(&spent.theirs, rate(func() error { return p.stream(w.Rank(), messages, s.size) })))
		if err != nil {
			return nil, err
		}
		pair.Ours, pair.Theirs = pair.Ours[1:], pair.Theirs[1:]
		what := fmt.Sprintf("messages of %s in a row, beside TCP", bytesOf(s.size))
		if messages == 1 {
			what = fmt.Sprintf("one message of %s, beside TCP", bytesOf(s.size))
		}
		r := atLeast(what, "MB/s", pair, s.bound)
		if r.CPU, err = spent.ratio(ctx, w, what); err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// inRow sends messages one way and waits for a word at the end.
func inRow(ctx context.Context, w *ibrun.World, messages int, m []byte) error {
	if w.Rank() == 1 {
		for range messages {
			m, err := w.RecvFrom(ctx, 0)
			if err != nil {
				return err
			}
			w.Free(m)
		}
		return w.Send(ctx, 0, []byte("done"))
	}
	for range messages {
		if err := w.Send(ctx, 1, m); err != nil {
			return err
		}
	}
	_, err := w.RecvFrom(ctx, 1)
	return err
}

// first measures the first message to each of several peers until its answer, beside what it may
// take: a question through the tree, and round trips over the link as cold as it is. One and a half
// of these bring the message, and half of one the answer.
func first(ctx context.Context, w *ibrun.World, _ int) ([]row, error) {
	var pair figure.Pair
	for to := 1; to < w.Size(); to++ {
		key := fmt.Sprint("asked ", to)
		if w.Rank() == to {
			if err := w.Put(ctx, key, nil); err != nil {
				return nil, err
			}
		}
		if err := w.Barrier(ctx); err != nil {
			return nil, err
		}
		var tree time.Duration
		if w.Rank() == 0 {
			var err error
			if tree, err = figure.Time(func() error { _, err := w.Get(ctx, to, key); return err }); err != nil {
				return nil, err
			}
		}
		p, err := newPlain(ctx, w, to)
		if err != nil {
			return nil, err
		}
		if err := w.Barrier(ctx); err != nil {
			return nil, err
		}
		switch w.Rank() {
		case 0:
			link, err := figure.Time(func() error { return p.datagram(0, 64) })
			if err != nil {
				return nil, err
			}
			took, err := figure.Time(func() error {
				if err := w.Send(ctx, to, make([]byte, 64)); err != nil {
					return err
				}
				_, err := w.RecvFrom(ctx, to)
				return err
			})
			if err != nil {
				return nil, err
			}
			pair.Ours = append(pair.Ours, figure.Microseconds(took))
			pair.Theirs = append(pair.Theirs, figure.Microseconds(tree+2*link))
		case to:
			if err := p.datagram(to, 64); err != nil {
				return nil, err
			}
			m, err := w.RecvFrom(ctx, 0)
			if err != nil {
				return nil, err
			}
			if err := w.Send(ctx, 0, m); err != nil {
				return nil, err
			}
		}
	}
	if w.Rank() > 0 {
		return nil, nil
	}
	return []row{atMost("first message and answer, beside a question and two round trips", "us", pair, 1)}, nil
}

func bytesOf(size int) string {
	switch {
	case size >= 1<<20:
		return fmt.Sprintf("%d MiB", size>>20)
	case size >= 1<<10:
		return fmt.Sprintf("%d KiB", size>>10)
	}
	return fmt.Sprintf("%d B", size)
}
