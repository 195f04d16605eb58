//go:build !(cluster || mpi || ib || managers || soak)

package product

// shipped is false in unlabelled tests: they build ibrun with the same compiler flags as the tests, so that Go compiles
// each package only once.
const shipped = false
