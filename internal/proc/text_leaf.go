//go:build leaf

package proc

// ForgetStart does nothing: the program of a leaf is small enough to stay, and what it would let
// go of it would ask for again.
func ForgetStart() {}
