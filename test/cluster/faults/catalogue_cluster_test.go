//go:build cluster

package faults

import "testing"

// Each case of the catalogue ends with its exit code and one line that names the cause, and leaves neither
// processes nor files.
func TestCases(t *testing.T) {
	t.Parallel()
	playCases(t, false)
}

// Malformed options, host lists, files and environments are refused with 2, or end with another documented
// code. None of them crashes ibrun, and none leaves anything.
func TestInputs(t *testing.T) {
	t.Parallel()
	playInputs(t, 40)
}
