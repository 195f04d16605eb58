//go:build !race

package sim

// largest is the number of agents of the budget test.
const largest = 65536

// clientNodes is the number of nodes with 16 PMI clients each in TestPMIBytesAtScale.
const clientNodes = 4096

// millionNodes have 64 ranks each in TestMillionRanks.
const millionNodes = 16384

func stride(int) int { return 1 }
