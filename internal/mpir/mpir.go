// Package mpir has the names by which debuggers find the processes of a job in its starter, the
// MPIR process acquisition interface: MPIR_proctable, MPIR_Breakpoint and others (mpir_amd64.s). A
// debugger reads and writes them from outside. The package starts nothing and asks nobody: what is
// in the table, and what happens before and after the breakpoint, is the caller's business.
package mpir

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Process is one entry of the table.
type Process struct {
	Host, Program string
	PID           uint32
}

// spawned is the MPIR_debug_state of a job whose table is there.
const spawned = 1

// descriptor is what the interface calls MPIR_PROCDESC. Debuggers know its layout.
type descriptor struct {
	host, program uintptr // C strings
	pid           int32
	_             int32
}

// errNone says that the starter was built for a machine without the names.
var errNone = errors.New("this build of ibrun has no MPIR symbols")

// BeingDebugged reports whether a debugger has said, before the job starts, that it wants it.
func BeingDebugged() bool { return at.being != nil && *at.being != 0 }

// Spawned gives the table to the debugger and stops at MPIR_Breakpoint, where the debugger reads
// it. It returns when the debugger lets this process go on, or at once if there is none.
func Spawned(all []Process) error {
	if at.table == nil {
		return errNone
	}
	table, err := lay(all)
	if err != nil {
		return err
	}
	*at.table, *at.size, *at.state = table, int32(len(all)), spawned
	Breakpoint()
	return nil
}

// lay puts the table into memory that Go's collector never moves nor frees: it stays for as long as
// the process lives. The texts of equal hosts and programs in a row are the same.
func lay(all []Process) (uintptr, error) {
	if len(all) == 0 {
		return 0, nil
	}
	size := len(all) * int(unsafe.Sizeof(descriptor{}))
	for _, p := range all {
		size += len(p.Host) + len(p.Program) + 2
	}
	memory, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return 0, err
	}
	base := uintptr(unsafe.Pointer(&memory[0]))
	table := unsafe.Slice((*descriptor)(unsafe.Pointer(&memory[0])), len(all))
	next := len(all) * int(unsafe.Sizeof(descriptor{}))
	put := func(text string) uintptr {
		at := base + uintptr(next)
		next += copy(memory[next:], text) + 1
		return at
	}
	for i, p := range all {
		e := &table[i]
		if e.pid = int32(p.PID); i > 0 && p.Host == all[i-1].Host {
			e.host = table[i-1].host
		} else {
			e.host = put(p.Host)
		}
		if i > 0 && p.Program == all[i-1].Program {
			e.program = table[i-1].program
		} else {
			e.program = put(p.Program)
		}
	}
	return base, nil
}
