//go:build soak

package faults

import (
	"flag"
	"testing"
)

var inputs = flag.Int("inputs", 400, "malformed inputs")

// TestMoreCases does the same as TestCases in a tree of seven nodes with a fan-out of two. It also runs the cases with
// the field soak set.
func TestMoreCases(t *testing.T) {
	nodes, deep = 7, "kary:2"
	playCases(t, true)
}

// TestMoreInputs does the same as TestInputs for many more malformed inputs.
func TestMoreInputs(t *testing.T) { playInputs(t, *inputs) }
