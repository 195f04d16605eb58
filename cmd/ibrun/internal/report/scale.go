package report

import (
	"fmt"
	"strings"
	"time"
)

// scale lays a launch's time over a width in pixels.
type scale struct {
	end   time.Duration
	left  float64
	width float64
}

func (s scale) x(t time.Duration) float64 {
	return s.left + s.width*float64(t)/float64(max(s.end, 1))
}

// ticks are round times, at most ten of them, from 0 on.
func (s scale) ticks() (at []time.Duration) {
	step := time.Microsecond
	for i := 0; s.end/step >= 10; i++ { // 2, 5, 10, 20, ...
		if i%3 == 1 {
			step = step / 2 * 5
		} else {
			step *= 2
		}
	}
	for t := time.Duration(0); t >= 0 && t <= s.end; t += step { // below 0: there is no such time
		at = append(at, t)
	}
	return at
}

// tickText is a round time without the zeros that say nothing.
func tickText(t time.Duration) string {
	switch {
	case t == 0:
		return "0"
	case t%time.Second == 0:
		return fmt.Sprintf("%d s", t/time.Second)
	case t >= time.Second:
		return strings.TrimRight(fmt.Sprintf("%.3f", t.Seconds()), "0") + " s"
	case t%time.Millisecond == 0:
		return fmt.Sprintf("%d ms", t/time.Millisecond)
	}
	return fmt.Sprintf("%.3g ms", float64(t)/float64(time.Millisecond))
}
