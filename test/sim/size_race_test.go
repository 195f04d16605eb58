//go:build race

package sim

// The race detector makes a run ten times slower and the simulation has no
// goroutines: with it a sample of the sizes is run. `make sim` runs them all.
const largest = 4096

const clientNodes = 64

const millionNodes = 256

func stride(n int) int { return 1 + n/8 }
