//go:build !race

package sim

// largest is the number of agents of the budget test.
const largest = 65536

func stride(int) int { return 1 }
