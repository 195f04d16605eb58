package proc

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"ibrun/internal/cpuset"
)

// Thread is what a process inherits of the thread that starts it: which CPUs
// it may run on, and where its memory comes from. The zero value is this
// process's own.
type Thread struct {
	CPUs       cpuset.Set
	Mems       cpuset.Set // NUMA nodes; empty: the node that each CPU is on
	Interleave bool       // pages of Mems in turn; otherwise Mems has one node, which is preferred
}

// Policy is the memory policy for the user: empty for the kernel's default.
func (t Thread) Policy() string {
	switch {
	case t.Mems.Empty():
		return ""
	case t.Interleave:
		return "interleave " + t.Mems.String()
	}
	return "prefer " + t.Mems.String()
}

// HasMemoryPolicies reports whether this process may give others a memory
// policy. Kernels without NUMA cannot, and the usual filter of containers
// (seccomp) forbids it.
func HasMemoryPolicies() bool {
	var mode uintptr
	_, _, errno := unix.RawSyscall6(unix.SYS_GET_MEMPOLICY, uintptr(unsafe.Pointer(&mode)), 0, 0, 0, 0, 0)
	return errno == 0
}

// Memory policies of set_mempolicy(2).
const (
	mpolDefault    = 0
	mpolPreferred  = 1
	mpolInterleave = 3
)

// station is what a spawner's thread is at present.
type station struct {
	own []uint64 // its affinity at the beginning; empty: not known, and then it stays where its last process went
	now Thread
}

// newStation is the calling thread's, which must be locked.
func newStation() *station {
	mask := make([]uint64, cpuset.Max/64)
	n, _, errno := unix.RawSyscall(unix.SYS_SCHED_GETAFFINITY, 0, uintptr(8*len(mask)),
		uintptr(unsafe.Pointer(&mask[0])))
	if errno != 0 {
		n = 0
	}
	return &station{own: mask[:n/8]}
}

// become changes the thread for the next process. It stays so until a process
// wants something else: most are started in a row, and each change of CPUs
// costs the thread a move.
func (s *station) become(t Thread) error {
	cpus := t.CPUs.Words()
	if t.CPUs.Empty() {
		cpus = s.own
	}
	if !t.CPUs.Equal(s.now.CPUs) && len(cpus) > 0 {
		if err := setAffinity(cpus); err != nil {
			return fmt.Errorf("CPUs %v: sched_setaffinity: %w", t.CPUs, err)
		}
	}
	s.now.CPUs = t.CPUs
	if t.Mems.Equal(s.now.Mems) && t.Interleave == s.now.Interleave {
		return nil
	}
	mode := mpolPreferred
	switch {
	case t.Mems.Empty():
		mode = mpolDefault
	case t.Interleave:
		mode = mpolInterleave
	}
	if err := setMemory(mode, t.Mems.Words()); err != nil {
		return fmt.Errorf("memory of NUMA nodes %v: set_mempolicy: %w", t.Mems, err)
	}
	s.now = t
	return nil
}

func setAffinity(mask []uint64) error {
	_, _, errno := unix.RawSyscall(unix.SYS_SCHED_SETAFFINITY, 0, uintptr(8*len(mask)),
		uintptr(unsafe.Pointer(&mask[0])))
	if errno != 0 {
		return errno
	}
	return nil
}

// setMemory: the kernel reads one bit less than it is told (mm/mempolicy.c,
// get_nodes).
func setMemory(mode int, nodes []uint64) error {
	var at unsafe.Pointer
	bits := 0
	if mode != mpolDefault {
		at, bits = unsafe.Pointer(&nodes[0]), 64*len(nodes)+1
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SET_MEMPOLICY, uintptr(mode), uintptr(at), uintptr(bits)); errno != 0 {
		return errno
	}
	return nil
}
