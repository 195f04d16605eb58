//go:build !amd64

package run

// MPIRBreakpoint does nothing: only builds for amd64 have the symbols of MPIR.
func MPIRBreakpoint() {}

// at is nothing: the names exist on amd64 only.
var at struct {
	being, state, size *int32
	table              *uintptr
}
