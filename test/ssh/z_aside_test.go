package ssh

import "testing"

// TestWhatWasAside waits for the tests that were begun first. It is parallel, so that it waits
// beside others that do.
func TestWhatWasAside(t *testing.T) {
	t.Parallel()
	judgeAside(t)
}
