//go:build !leaf

package proc

// ForgetStart is ForgetText for what starting needed.
func ForgetStart() { ForgetText() }
