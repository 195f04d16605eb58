// Package figure is what benchmarks share: the machine that they ran on, in a line; turns; medians;
// and bounds that are met or missed. It refuses to know what is measured.
package figure

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Machine is where a benchmark runs: without it no time means anything.
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
	return fmt.Sprintf("%d x %s, Linux %s, %s, load %s", runtime.NumCPU(), model, release, runtime.Version(), load())
}

// load is the load of the last minute: figures of a machine that does something
// else besides are to be read as such.
func load() string {
	text, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(text), " ")
	return first
}

// Median is the middle of some values, the larger of two; 0 of none.
func Median[T cmp.Ordered](values []T) (middle T) {
	if len(values) == 0 {
		return middle
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
