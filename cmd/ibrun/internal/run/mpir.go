package run

import (
	"errors"
	"runtime"
	"unsafe"

	"ibrun/bootstrap/control"
)

// spawned is the MPIR_debug_state of a job whose table is there.
const spawned = 1

// descriptor is MPIR_PROCDESC of the MPIR debugging interface. Debuggers depend on its layout.
type descriptor struct {
	host, program *byte // null-terminated strings for the debugger
	pid           int32
}

// errNone says that the starter was built for a machine without the names.
var errNone = errors.New("this build of ibrun has no MPIR symbols")

// MPIRExists reports whether this build has the symbols of MPIR.
func MPIRExists() bool { return at.table != nil }

// BeingDebugged reports whether a debugger has said that it wants the job.
func BeingDebugged() bool { return at.being != nil && *at.being != 0 }

// tablePins prevents the garbage collector from freeing the process table and its strings. Only MPIR_proctable points
// to the table, and the collector does not follow that variable.
var tablePins runtime.Pinner

// MPIRSpawned sets MPIR_proctable to all and calls MPIR_Breakpoint, where a debugger stops this process and reads the
// table. It returns when the debugger continues the process, or at once if there is no debugger. Each call replaces the
// table of the call before. Calls must not overlap.
func MPIRSpawned(all []control.Process) error {
	if !MPIRExists() {
		return errNone
	}
	var pins runtime.Pinner
	texts := map[string]*byte{}
	cString := func(text string) *byte {
		if texts[text] == nil {
			texts[text] = unsafe.StringData(text + "\x00")
			pins.Pin(texts[text])
		}
		return texts[text]
	}
	table := make([]descriptor, len(all))
	for i, p := range all {
		table[i] = descriptor{cString(p.Host), cString(p.Program), int32(p.PID)}
	}
	first := unsafe.SliceData(table)
	pins.Pin(first)
	*at.table, *at.size, *at.state = uintptr(unsafe.Pointer(first)), int32(len(all)), spawned
	tablePins.Unpin()
	tablePins = pins
	MPIRBreakpoint()
	return nil
}
