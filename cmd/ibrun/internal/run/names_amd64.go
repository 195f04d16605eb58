package run

import "unsafe"

// MPIRBreakpoint calls the symbol MPIR_Breakpoint, at which debuggers set a breakpoint.
func MPIRBreakpoint()

func addresses() (being, state, size, table unsafe.Pointer, flags uintptr)

// at is where the variables are.
var at = find()

func find() (v struct {
	being, state, size *int32
	table              *uintptr
}) {
	being, state, size, table, _ := addresses()
	v.being, v.state, v.size, v.table = (*int32)(being), (*int32)(state), (*int32)(size), (*uintptr)(table)
	return v
}
