//go:build cluster || mpi || ib || managers || soak

package product

// shipped reports whether tests run ibrun exactly as make build makes it.
const shipped = true
