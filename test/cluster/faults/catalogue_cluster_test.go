//go:build cluster

package faults

import "testing"

// TestCases plays the cases of the catalogue. Each must end with the expected exit code and one line that names the
// cause, and leave neither processes nor files.
func TestCases(t *testing.T) {
	t.Parallel()
	playCases(t, false)
}

// TestInputs gives ibrun malformed options, host lists, files and environments. It must refuse them with code 2, or
// end with another documented code. It must not crash, and must leave neither processes nor files.
func TestInputs(t *testing.T) {
	t.Parallel()
	playInputs(t, 40)
}
