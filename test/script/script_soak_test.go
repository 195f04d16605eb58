//go:build soak

package script

import "testing"

// TestScaledScripts runs the scripts that scale with 64 times the repetitions or the data of TestScript.
func TestScaledScripts(t *testing.T) { run(t, "64", "testdata/scale-*.txtar") }

// TestLongScripts runs scripts that are too long for make test.
func TestLongScripts(t *testing.T) { run(t, "64", "testdata/soak/*.txtar") }
