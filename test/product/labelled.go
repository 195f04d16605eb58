//go:build cluster || mpi || ib || managers || soak

package product

// shipped is true in labelled suites: they test the same binary that make build builds.
const shipped = true
