//go:build cluster

package faults

import "testing"

// TestCases runs each case of the catalogue of faults, except for those that only make soak runs. A job must end with
// the expected exit code and, if it fails, with one line that names the cause. It must leave neither processes nor
// files.
func TestCases(t *testing.T) {
	t.Parallel()
	playCases(t, false)
}

// TestInputs gives ibrun malformed options, host lists, files and environments. ibrun must end with an exit code that
// docs/cli.md lists, and with code 2 if no reading of the input is valid. It must not crash, and must leave neither
// processes nor files.
func TestInputs(t *testing.T) {
	t.Parallel()
	playInputs(t, 40)
}
