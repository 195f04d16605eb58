//go:build cluster || mpi || ib || managers || soak

package product

// shipped tells whether tests run the binary exactly as make build makes it.
const shipped = true
