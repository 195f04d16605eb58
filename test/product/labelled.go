//go:build cluster || mpi || ib || managers || soak

package product

// shipped reports whether Build makes the same binary as make build. In labelled suites, those with a build tag, it
// does.
const shipped = true
