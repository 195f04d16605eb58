// Package skip is how a test of this module is left out. What was left out is told at the
// end of make test, since go test without -v does not say it. The package decides nothing:
// whether a test can be done is for the test to find out.
package skip

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const (
	// listVariable names the file to which each test that is left out adds a line: reason,
	// tab, folder of the package, tab, name of the test. make test reads it.
	listVariable = "IBRUN_TEST_SKIPPED"
	// allVariable is set where nothing may be left out.
	allVariable = "IBRUN_TEST_ALL"
)

// T is what of testing.TB is needed.
type T interface {
	Helper()
	Name() string
	Skip(...any)
	Fatal(...any)
}

// Because leaves a test out, and ends it. The reason says what this machine lacks and, where
// it can be had, how. Where nothing may be left out, the test fails.
func Because(t T, reason string) {
	t.Helper()
	if os.Getenv(allVariable) != "" {
		t.Fatal(reason)
		return // where Fatal does, as in a test of this package
	}
	if list := os.Getenv(listVariable); list != "" {
		if err := add(list, reason, t.Name()); err != nil {
			t.Fatal("what was left out cannot be told: ", err)
			return
		}
	}
	t.Skip(reason)
}

// Done leaves a test out, and ends it, that another run of the same target does.
func Done(t T, where string) {
	t.Helper()
	t.Skip("done by " + where)
}

func add(list, reason, test string) error {
	f, err := os.OpenFile(list, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		return err
	}
	line := fmt.Sprintf("%s\t%s\t%s\n", strings.Join(strings.Fields(reason), " "), folder(), test)
	if _, err := f.WriteString(line); err != nil {
		return err
	}
	return f.Close()
}

// folder is the one of the package under test, in which go test runs it, as seen from the
// root of the module.
func folder() string {
	dir, err := os.Getwd()
	if err != nil {
		return "?"
	}
	for up := dir; up != filepath.Dir(up); up = filepath.Dir(up) {
		if _, err := os.Stat(filepath.Join(up, "go.mod")); err == nil {
			name, _ := filepath.Rel(up, dir) // of two absolute paths: it cannot fail
			return name
		}
	}
	return dir
}
