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

// Policy is the memory policy for people: empty for the kernel's default.
func (t Thread) Policy() string {
	switch {
	case t.Mems.Empty():
		return ""
	case t.Interleave:
		return "interleave " + t.Mems.String()
	}
	return "prefer " + t.Mems.String()
}

// Memory policies of set_mempolicy(2).
const (
	mpolDefault    = 0
	mpolPreferred  = 1
	mpolInterleave = 3
)

// take gives the calling thread, which must be locked, these properties.
func (t Thread) take() error {
	if !t.CPUs.Empty() {
		if err := setAffinity(t.CPUs.Words()); err != nil {
			return fmt.Errorf("CPUs %v: sched_setaffinity: %w", t.CPUs, err)
		}
	}
	if !t.Mems.Empty() {
		mode := mpolPreferred
		if t.Interleave {
			mode = mpolInterleave
		}
		if err := setMemory(mode, t.Mems.Words()); err != nil {
			return fmt.Errorf("memory of NUMA nodes %v: set_mempolicy: %w", t.Mems, err)
		}
	}
	return nil
}

// original is the affinity that a thread had before the first take.
type original []uint64

func currentAffinity() (original, error) {
	mask := make([]uint64, cpuset.Max/64)
	n, _, errno := unix.RawSyscall(unix.SYS_SCHED_GETAFFINITY, 0, uintptr(8*len(mask)), uintptr(unsafe.Pointer(&mask[0])))
	if errno != 0 {
		return nil, errno
	}
	return mask[:n/8], nil
}

// giveBack undoes take.
func (t Thread) giveBack(o original) {
	if !t.CPUs.Empty() && len(o) > 0 {
		_ = setAffinity(o)
	}
	if !t.Mems.Empty() {
		_ = setMemory(mpolDefault, nil)
	}
}

func setAffinity(mask []uint64) error {
	_, _, errno := unix.RawSyscall(unix.SYS_SCHED_SETAFFINITY, 0, uintptr(8*len(mask)), uintptr(unsafe.Pointer(&mask[0])))
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
	if len(nodes) > 0 {
		at, bits = unsafe.Pointer(&nodes[0]), 64*len(nodes)+1
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SET_MEMPOLICY, uintptr(mode), uintptr(at), uintptr(bits)); errno != 0 {
		return errno
	}
	return nil
}
