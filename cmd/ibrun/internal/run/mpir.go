package run

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

// MPIRProcess is an entry of MPIR_proctable: a process of the job.
type MPIRProcess struct {
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

// MPIRExists reports whether this build has the symbols of MPIR.
func MPIRExists() bool { return at.table != nil }

// BeingDebugged reports whether a debugger has said that it wants the job.
func BeingDebugged() bool { return at.being != nil && *at.being != 0 }

// laid is the memory of the table.
var laid []byte

// MPIRSpawned sets MPIR_proctable to all and calls MPIR_Breakpoint, where a debugger stops this process and reads the
// table. It returns when the debugger continues the process, or at once if there is no debugger. Each call replaces the
// table of the call before. Calls must not overlap.
func MPIRSpawned(all []MPIRProcess) error {
	if !MPIRExists() {
		return errNone
	}
	memory, table, err := lay(all)
	if err != nil {
		return err
	}
	*at.table, *at.size, *at.state = table, int32(len(all)), spawned
	if laid != nil {
		_ = unix.Munmap(laid) // it was mapped
	}
	laid = memory
	MPIRBreakpoint()
	return nil
}

// lay puts a table into memory that Go's collector never moves nor frees. The texts of equal hosts
// and programs in a row are the same.
func lay(all []MPIRProcess) (memory []byte, base uintptr, err error) {
	if len(all) == 0 {
		return nil, 0, nil
	}
	size := len(all) * int(unsafe.Sizeof(descriptor{}))
	for _, p := range all {
		size += len(p.Host) + len(p.Program) + 2
	}
	memory, err = unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, 0, err
	}
	base = uintptr(unsafe.Pointer(&memory[0]))
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
	return memory, base, nil
}
