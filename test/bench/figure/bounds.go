package figure

import (
	"fmt"
	"io"
	"strings"
)

// Bounds are the ratios that a benchmark is for. It says of each whether it is
// met, and fails at the end if one is not.
type Bounds struct {
	To     io.Writer
	missed []string
}

// AtMost and AtLeast compare a ratio with its bound.
func (b *Bounds) AtMost(what string, got, bound float64) {
	b.judge(what, got, bound, "at most", got <= bound)
}

// AtLeast is AtMost for ratios that should be large.
func (b *Bounds) AtLeast(what string, got, bound float64) {
	b.judge(what, got, bound, "at least", got >= bound)
}

func (b *Bounds) judge(what string, got, bound float64, side string, met bool) {
	word := "met"
	if !met {
		word = "MISSED"
		b.missed = append(b.missed, what)
	}
	fmt.Fprintf(b.To, "%s: %.2f (bound: %s %.2f): %s\n", what, got, side, bound, word)
}

// Err names what was missed.
func (b *Bounds) Err() error {
	if len(b.missed) == 0 {
		return nil
	}
	return fmt.Errorf("missed: %s", strings.Join(b.missed, "; "))
}
