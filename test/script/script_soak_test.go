//go:build soak

package script

import "testing"

// TestScaledScripts runs the scripts scale-*.txtar with 64 times as many repetitions as TestScript, or with 64 times as
// much data.
func TestScaledScripts(t *testing.T) { run(t, "64", "testdata/scale-*.txtar") }

// TestLongScripts runs scripts that are too long for make test.
func TestLongScripts(t *testing.T) { run(t, "64", "testdata/soak/*.txtar") }
