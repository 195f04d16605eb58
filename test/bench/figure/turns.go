package figure

import (
	"fmt"
	"strconv"
	"time"
)

// Rounds reads a number of rounds.
func Rounds(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("invalid number of rounds: %q", text)
	}
	return n, nil
}

// Turns runs each way once a round, one after the other, so that other load of the machine meets
// all of them alike. It ends with the first error.
func Turns(rounds int, ways ...func() error) error {
	for range rounds {
		for _, way := range ways {
			if err := way(); err != nil {
				return err
			}
		}
	}
	return nil
}

// Time is how long a function takes, whatever it returns.
func Time(f func() error) (time.Duration, error) {
	began := time.Now()
	err := f()
	return time.Since(began), err
}

// Pair is what two ways of doing the same were measured at, a value for each round.
type Pair struct{ Ours, Theirs []float64 }

// Measure adds values, in turns.
func (p *Pair) Measure(rounds int, ours, theirs func() (float64, error)) error {
	into := func(list *[]float64, measure func() (float64, error)) func() error {
		return func() error {
			v, err := measure()
			*list = append(*list, v)
			return err
		}
	}
	return Turns(rounds, into(&p.Ours, ours), into(&p.Theirs, theirs))
}

// Medians are those of both ways, and the first divided by the second.
func (p *Pair) Medians() (ours, theirs, ratio float64) {
	ours, theirs = Median(p.Ours), Median(p.Theirs)
	return ours, theirs, ours / theirs
}

// Milliseconds is a time as a number for a table.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Microseconds is Milliseconds for short times.
func Microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
