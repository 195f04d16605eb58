//go:build !(cluster || mpi || ib || managers || soak)

package product

// shipped reports whether Build makes the same program as make build, unless coverage is measured. This is false in
// tests without a build tag. They build ibrun without -trimpath, the default of go test, so that Go compiles each
// package only once for the tests and for ibrun.
const shipped = false
