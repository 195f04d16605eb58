// Package skip leaves out tests that cannot run on a machine. It is for tests alone.
package skip

import "os"

// allVariable is set where no test may be left out.
const allVariable = "IBRUN_TEST_ALL"

// T is the part of testing.TB that this package uses.
type T interface {
	Helper()
	Skip(...any)
	Fatal(...any)
}

// Because ends a test and reports it as skipped. The reason says what this machine lacks and, where it
// can be had, how. If no test may be left out, the test fails instead.
func Because(t T, reason string) {
	t.Helper()
	if os.Getenv(allVariable) != "" {
		t.Fatal(reason)
		return // where Fatal does, as in a test of this package
	}
	t.Skip(reason)
}

// Done ends a test that another run of the same target does.
func Done(t T, where string) {
	t.Helper()
	t.Skip("done by " + where)
}
