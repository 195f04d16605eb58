package between

import (
	"context"
	"errors"
	"time"

	"ibrun"
	"ibrun/test/bench/figure"
)

// The all-to-all of small messages, once with and once without WithAggregation.
const (
	rolePlain   = "all"
	roleBundled = "bundled"
	// eachTo is the number of messages from each rank to each.
	eachTo = 100
	// bundleWait is how long one may wait for others.
	bundleWait = time.Millisecond
)

// options are those of a role's world.
func options(role string) []ibrun.Option {
	if role != roleBundled {
		return nil
	}
	return []ibrun.Option{ibrun.WithAggregation(bundleWait)}
}

// allToAll measures messages of 64 bytes from each rank to each, in turn.
func allToAll(ctx context.Context, w *ibrun.World, _ int) ([]row, error) {
	took, err := figure.Time(func() error {
		sent := make(chan error, 1)
		go func() {
			m := make([]byte, 64)
			for i := range w.Size() * eachTo {
				m[0], m[1] = byte(i/w.Size()>>8), byte(i/w.Size())
				if err := w.Send(ctx, (w.Rank()+i)%w.Size(), m); err != nil {
					sent <- err
					return
				}
			}
			sent <- w.Flush(ctx)
		}()
		next := make([]int, w.Size())
		for range w.Size() * eachTo {
			from, m, err := w.Recv(ctx)
			if err != nil {
				return err
			}
			if len(m) != 64 || int(m[0])<<8|int(m[1]) != next[from] {
				return errors.New("a message was lost, doubled or reordered")
			}
			next[from]++
		}
		return errors.Join(<-sent, w.Barrier(ctx))
	})
	return []row{{Ours: figure.Milliseconds(took)}}, err
}

// aggregated runs both in turns.
func aggregated(run func(role string) ([]row, error), rounds int) (row, error) {
	one := func(role string) func() (float64, error) {
		return func() (float64, error) {
			rows, err := run(role)
			if err != nil {
				return 0, err
			}
			return rows[0].Ours, nil
		}
	}
	var pair figure.Pair
	if err := pair.Measure(rounds, one(roleBundled), one(rolePlain)); err != nil {
		return row{}, err
	}
	const what = "100 messages of 64 B from each of 64 ranks to each, aggregated, beside without"
	return atMost(what, "ms", pair, 0.5), nil
}
