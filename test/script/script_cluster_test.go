//go:build cluster

package script

import "testing"

// TestScriptsOfTheShippedBinary runs scripts that need the binary exactly as make build builds it.
func TestScriptsOfTheShippedBinary(t *testing.T) { run(t, "1", "testdata/cluster/*.txtar") }
