//go:build ib

package verbs_test

import (
	"testing"

	"ibrun/test/rdmavm/inside"
)

// TestOnSoftRoCE runs the tests of this package that work on any device on those of a machine with
// Soft-RoCE. The fake has to behave as these do.
func TestOnSoftRoCE(t *testing.T) {
	needsFake(t)
	inside.Run(t, "/^roce$", "-test.skip", "Kept|Keeping|Others|NoPermission")
}
