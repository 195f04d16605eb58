//go:build soak

package faults

import (
	"flag"
	"testing"
)

var inputs = flag.Int("inputs", 400, "malformed inputs")

// The same holds for the rest of the matrix of processes, places and trees.
func TestMoreCases(t *testing.T) { playCases(t, true) }

// The same holds for many more malformed inputs.
func TestMoreInputs(t *testing.T) { playInputs(t, *inputs) }
