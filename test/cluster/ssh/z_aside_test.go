//go:build cluster

package ssh

import "testing"

// TestWhatWasAside is the last test: it waits for those that were begun first.
func TestWhatWasAside(t *testing.T) { judgeAside(t) }
