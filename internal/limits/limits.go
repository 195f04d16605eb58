// Package limits knows the resource limits that this process was started
// with. It imports nothing, and must not: Go initialises packages in the order of
// their paths as soon as their imports are ready, so this one comes before
// package syscall, which raises the soft limit of open files (syscall/rlimit.go).
package limits

// Count is the number of resource limits of Linux, getrlimit(2).
const Count = 16

// Infinity is RLIM_INFINITY.
const Infinity = ^uint64(0)

// Limit is a soft and a hard limit.
type Limit struct{ Soft, Hard uint64 }

var original = read()

func read() (all [Count]Limit) {
	for r := range all {
		prlimit(uintptr(r), &all[r])
	}
	return all
}

// Original returns the limits with which this process was started, by their
// numbers in getrlimit(2).
func Original() [Count]Limit { return original }

// Names are the limits' names by number, as in prlimit(1).
var Names = [Count]string{
	"CPU", "FSIZE", "DATA", "STACK", "CORE", "RSS", "NPROC", "NOFILE",
	"MEMLOCK", "AS", "LOCKS", "SIGPENDING", "MSGQUEUE", "NICE", "RTPRIO", "RTTIME",
}
