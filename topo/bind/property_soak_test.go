//go:build soak

package bind

import "testing"

// TestManyMachines runs the tests that draw machines with many more of them.
func TestManyMachines(t *testing.T) {
	machines = 10_000
	t.Run("Default", TestDefault)
	t.Run("Words", TestWords)
	t.Run("Odd", TestOdd)
	t.Run("ApportionIsFair", TestApportionIsFair)
}
