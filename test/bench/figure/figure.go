// Package figure provides the functions that the benchmarks share. It describes the machine, measures several
// functions in turns, runs and times commands, computes medians, compares values with bounds, and writes tables to
// documents.
package figure

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Machine describes this machine in one line: its processors, the kernel, the Go version and the load average of the
// last minute.
func Machine() string {
	model := "processor unknown"
	text, _ := os.ReadFile("/proc/cpuinfo") // for the user
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			model = strings.TrimSpace(value)
			break
		}
	}
	release := "unknown"
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		release = unix.ByteSliceToString(u.Release[:])
	}
	text, _ = os.ReadFile("/proc/loadavg") // for the user
	load, _, _ := strings.Cut(string(text), " ")
	return fmt.Sprintf("%d x %s, Linux %s, %s, load %s", runtime.NumCPU(), model, release, runtime.Version(), load)
}

// Parse stores args in the variables that the elements of into point to, in the same order. An element is a *string,
// an *int or, only at the end, a *[]string. An *int accepts numbers above 0. A *[]string takes all remaining
// arguments. Parse returns an error if a number is invalid, if there are too many arguments, or if a variable gets no
// argument.
func Parse(args []string, into ...any) error {
	for i, v := range into {
		if i >= len(args) {
			return fmt.Errorf("%d arguments are too few", len(args))
		}
		switch v := v.(type) {
		case *string:
			*v = args[i]
		case *int:
			n, err := strconv.Atoi(args[i])
			if err != nil || n < 1 {
				return fmt.Errorf("invalid number: %q", args[i])
			}
			*v = n
		case *[]string:
			*v = args[i:]
			return nil
		}
	}
	if len(args) > len(into) {
		return fmt.Errorf("%d arguments are too many", len(args))
	}
	return nil
}

// Median returns the median of values. If their number is even, it returns the larger one of the two middle values.
// If there are no values, it returns 0.
func Median[T cmp.Ordered](values []T) (middle T) {
	if len(values) == 0 {
		return middle
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// Time calls f. It returns how long the call took, and the error of f.
func Time(f func() error) (time.Duration, error) {
	began := time.Now()
	err := f()
	return time.Since(began), err
}

// Repeat calls f up to n times. It stops at the first error and returns it.
func Repeat(n int, f func() error) error {
	for range n {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// Milliseconds returns a time in milliseconds.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Microseconds returns a time in microseconds.
func Microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// CPU returns the processor time of this process so far (RUSAGE_SELF), or of its children that have ended
// (RUSAGE_CHILDREN).
func CPU(who int) time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(who, &u) // cannot fail for RUSAGE_SELF and RUSAGE_CHILDREN
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
