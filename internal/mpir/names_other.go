//go:build !amd64

package mpir

// Breakpoint is nowhere on this machine.
func Breakpoint() {}

// at is nothing: the names exist on amd64 only.
var at struct {
	being, state, size *int32
	table              *uintptr
}
