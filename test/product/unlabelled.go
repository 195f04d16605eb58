//go:build !(cluster || mpi || ib || managers || soak)

package product

// shipped tells whether tests run the binary exactly as make build makes it. Unlabelled tests run one
// that is compiled with the flags of go test, so that each package is compiled once.
const shipped = false
