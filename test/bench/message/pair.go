package message

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"ibrun"
	"ibrun/test/bench/figure"
)

const (
	count = 2000     // round trips in a round
	bulk  = 64 << 20 // bytes of a stream
)

// trips returns a role for two ranks that measures round trips. names maps the length of messages in bytes to the
// name of the row for this length. numbers[0] is the number of rounds, as in all roles that return rows.
func trips(names map[int]string) role {
	return func(ctx context.Context, w *ibrun.World, numbers []int) (rows []row, err error) {
		p, err := newPlain(ctx, w, 1)
		if err != nil {
			return nil, err
		}
		for _, size := range slices.Sorted(maps.Keys(names)) {
			m := make([]byte, size)
			var late pair
			median, err := beside(numbers[0],
				timeCalls(&late.ours, func() error { return trip(ctx, w, m) }),
				timeCalls(&late.theirs, func() error { return p.datagram(w.Rank(), size) }))
			if err != nil {
				return nil, err
			}
			late.ours, late.theirs = late.ours[1:], late.theirs[1:] // the first round does not count
			usual := atMost(names[size]+", median, beside UDP", "us", median, 1.5)
			if usual.CPU, err = median.ratioOfCPU(ctx, w, usual.What); err != nil {
				return nil, err
			}
			rows = append(rows, usual, atMost(names[size]+", p99, beside UDP", "us", late, 2))
		}
		return rows, nil
	}
}

// timeCalls returns a function that calls f count times. The function returns the median duration of a call in
// microseconds, and appends the 99th percentile to late.
func timeCalls(late *[]float64, f func() error) func() (float64, error) {
	return func() (float64, error) {
		all := make([]float64, 0, count)
		err := figure.Repeat(count, func() error {
			took, err := figure.Time(f)
			all = append(all, figure.Microseconds(took))
			return err
		})
		if err != nil {
			return 0, err
		}
		slices.Sort(all)
		*late = append(*late, all[count*99/100])
		return all[count/2], nil
	}
}

// trip makes one round trip of the message m from rank 0 to rank 1 and back. Both ranks call it.
func trip(ctx context.Context, w *ibrun.World, m []byte) error {
	if w.Rank() == 0 {
		if err := w.Send(ctx, 1, m); err != nil {
			return err
		}
	}
	got, err := w.RecvFrom(ctx, 1-w.Rank())
	if err != nil {
		return err
	}
	if len(got) != len(m) {
		return fmt.Errorf("a message has %d bytes, want %d", len(got), len(m))
	}
	if w.Rank() == 1 {
		err = w.Send(ctx, 0, got)
	}
	w.Free(got)
	return err
}

// stream describes a series of messages from rank 0 to rank 1. Each message has size bytes, and all of them together
// have bulk bytes. bound is the lower bound of their rate, divided by the rate of TCP.
type stream struct {
	what  string
	size  int
	bound float64
}

func streams(ctx context.Context, w *ibrun.World, numbers []int) ([]row, error) {
	return inRow(ctx, w, numbers[0], []stream{
		{"messages of 16 KiB in a row, beside TCP", 16 << 10, 0.7},
		{"messages of 64 KiB in a row, beside TCP", 64 << 10, 0.8},
		{"messages of 1 MiB in a row, beside TCP", 1 << 20, 0.9},
		{"one message of 64 MiB, beside TCP", bulk, 0.9},
	})
}

// here is a role for two ranks on one machine. It measures round trips and series of messages.
func here(ctx context.Context, w *ibrun.World, numbers []int) ([]row, error) {
	small, err := trips(map[int]string{64: "small"})(ctx, w, numbers)
	if err != nil {
		return nil, err
	}
	long, err := inRow(ctx, w, numbers[0], []stream{
		{"bulk, 16 KiB messages on one machine, beside TCP", 16 << 10, 0.8},
		{"bulk, 4 MiB messages on one machine, beside TCP", 4 << 20, 0.8},
	})
	small[0].What = "64-byte round trip on one machine, beside UDP"
	return append(small[:1], long...), err
}

// inRow measures each series of messages in list with package ibrun and over TCP. It returns one row for each series.
func inRow(ctx context.Context, w *ibrun.World, rounds int, list []stream) (rows []row, err error) {
	p, err := newPlain(ctx, w, 1)
	if err != nil {
		return nil, err
	}
	for _, s := range list {
		messages, m := bulk/s.size, make([]byte, s.size)
		rate := func(f func() error) func() (float64, error) {
			return func() (float64, error) {
				took, err := figure.Time(f)
				return bulk / 1e6 / took.Seconds(), err
			}
		}
		measured, err := beside(rounds,
			rate(func() error { return oneWay(ctx, w, messages, m) }),
			rate(func() error { return p.stream(w.Rank(), messages, s.size) }))
		if err != nil {
			return nil, err
		}
		r := atLeast(s.what, "MB/s", measured, s.bound)
		if r.CPU, err = measured.ratioOfCPU(ctx, w, r.What); err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// oneWay sends the message m from rank 0 to rank 1, as often as messages says. Rank 1 then sends one message back.
// Both ranks call it.
func oneWay(ctx context.Context, w *ibrun.World, messages int, m []byte) error {
	if w.Rank() == 0 {
		if err := figure.Repeat(messages, func() error { return w.Send(ctx, 1, m) }); err != nil {
			return err
		}
		_, err := w.RecvFrom(ctx, 1)
		return err
	}
	if err := figure.Repeat(messages, func() error {
		got, err := w.RecvFrom(ctx, 0)
		w.Free(got)
		return err
	}); err != nil {
		return err
	}
	return w.Send(ctx, 0, []byte("done"))
}

// first measures how long rank 0 waits from its first message to a peer until the answer, for one peer after the
// other. It compares this time with that of a Get plus twice that of a first round trip by UDP over the same link.
// ibrun needs a look-up through the tree, one and a half round trips to connect and to deliver the message, and half
// a round trip for the answer.
func first(ctx context.Context, w *ibrun.World, _ []int) ([]row, error) {
	var p pair
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
		sockets, err := newPlain(ctx, w, to)
		if err != nil {
			return nil, err
		}
		if err := w.Barrier(ctx); err != nil {
			return nil, err
		}
		if w.Rank() != 0 && w.Rank() != to {
			continue
		}
		link, err := figure.Time(func() error { return sockets.datagram(w.Rank(), 64) })
		if err != nil {
			return nil, err
		}
		took, err := figure.Time(func() error {
			if w.Rank() == 0 {
				if err := w.Send(ctx, to, make([]byte, 64)); err != nil {
					return err
				}
			}
			m, err := w.RecvFrom(ctx, to-w.Rank())
			if err == nil && w.Rank() == to {
				err = w.Send(ctx, 0, m)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		p.ours = append(p.ours, figure.Microseconds(took))
		p.theirs = append(p.theirs, figure.Microseconds(tree+2*link))
	}
	if w.Rank() > 0 {
		return nil, nil
	}
	return []row{atMost("first message and answer, beside a question and two round trips", "us", p, 1)}, nil
}
