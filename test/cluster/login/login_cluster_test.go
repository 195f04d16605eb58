//go:build cluster

package login

import "testing"

// TestSameVerdict requires of native ssh the verdicts that TestSameVerdictOfSSH requires of both.
func TestSameVerdict(t *testing.T) { requireSameVerdict(t, situations, false) }
