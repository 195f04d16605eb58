//go:build cluster || mpi || ib || managers || soak

package product

// shipped reports whether Build makes the same program as make build, unless coverage is measured. This is true in
// tests with a build tag such as cluster or mpi.
const shipped = true
