package between

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"ibrun"
)

// cpu is the processor time that two ranks have used for one way and for the other. It says what
// times cannot on a machine that is busy otherwise.
type cpu struct{ ours, theirs time.Duration }

// used is the processor time of this process so far.
func used() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// charge adds what a function uses.
func charge(to *time.Duration, f func() (float64, error)) func() (float64, error) {
	return func() (float64, error) {
		before := used()
		v, err := f()
		*to += used() - before
		return v, err
	}
}

// ratio is that of both ways, over both ranks; rank 1 gets 0.
func (c cpu) ratio(ctx context.Context, w *ibrun.World, what string) (float64, error) {
	if w.Rank() > 0 {
		return 0, w.Put(ctx, "cpu "+what, fmt.Appendf(nil, "%d %d", c.ours, c.theirs))
	}
	text, err := w.Get(ctx, 1, "cpu "+what)
	if err != nil {
		return 0, err
	}
	var ours, theirs time.Duration
	if _, err := fmt.Sscan(string(text), &ours, &theirs); err != nil {
		return 0, err
	}
	return float64(c.ours+ours) / float64(c.theirs+theirs), nil
}

// shown is a ratio as the table has it; 0: it was not measured.
func shown(ratio float64) string {
	if ratio == 0 {
		return ""
	}
	return strconv.FormatFloat(ratio, 'f', 2, 64)
}
