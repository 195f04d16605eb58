//go:build soak

package login

import (
	"slices"
	"testing"
)

// TestSameVerdictOfSSH requires the same verdicts of native ssh and of the program ssh.
func TestSameVerdictOfSSH(t *testing.T) {
	requireSameVerdict(t, slices.Concat(situations, grammarSituations), true)
}
