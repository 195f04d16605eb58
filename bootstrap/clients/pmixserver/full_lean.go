//go:build lean

package pmixserver

// maxFull is that of the ibrun with which test/mpi/nodes shows on a few nodes how clients of large jobs
// fare: they are told of the ranks of their own node only.
const maxFull = 0
