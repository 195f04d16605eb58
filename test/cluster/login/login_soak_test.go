//go:build soak

package login

import "testing"

func TestSameVerdictOnGrammar(t *testing.T) { requireSameVerdict(t, grammarSituations) }
