//go:build !amd64

package run

// MPIRBreakpoint is nowhere on this machine.
func MPIRBreakpoint() {}

// at is nothing: the names exist on amd64 only.
var at struct {
	being, state, size *int32
	table              *uintptr
}
