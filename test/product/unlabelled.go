//go:build !(cluster || mpi || ib || managers || soak)

package product

// shipped reports whether Build makes the same binary as make build. In unlabelled tests, those without a build tag,
// it does not. It omits -trimpath, as go test does, so that Go compiles each package only once for tests and ibrun.
const shipped = false
