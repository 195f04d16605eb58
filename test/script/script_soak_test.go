//go:build soak

package script

import "testing"

// TestScaledScripts runs scripts that repeat a race, or that move data, with more of both.
func TestScaledScripts(t *testing.T) { run(t, "64", "testdata/scale-*.txtar") }

// TestLongScripts runs scripts that are too long for make test.
func TestLongScripts(t *testing.T) { run(t, "64", "testdata/soak/*.txtar") }
