//go:build !(cluster || mpi || ib || managers || soak)

package product

// shipped reports whether tests run ibrun exactly as make build makes it. For unlabelled tests ibrun is
// compiled with the flags of go test, so that each package is compiled only once.
const shipped = false
