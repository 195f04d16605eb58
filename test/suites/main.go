// Command suites runs suites of tests and prints one table.
//
//	go run ./test/suites test
//	go run ./test/suites test race cluster mpi ib managers
//
// The suite "test" is go test of the whole module. The suite "race" runs the packages that start goroutines under the
// race detector. All other suites have the name of a build tag, and run only the tests in files with that tag. A
// failed test of a labelled suite runs once more by itself. If it passes then, it is unstable: the table counts it,
// and out/unstable.txt lists it. Three unstable tests fail the run.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// labels maps each labelled suite to the number of packages that run at the same time.
var labels = map[string]int{"cluster": 2, "mpi": 2, "ib": 1, "managers": 1, "soak": 1}

// maxUnstable is the number of unstable tests that a run may have.
const maxUnstable = 2

func main() {
	cover := flag.String("cover", "", "write coverage data of tests and of ibrun to this `folder`")
	only := flag.String("run", "", "of labelled suites, run only the tests whose names match this `pattern`")
	flag.Parse()
	if err := run(flag.Args(), *cover, *only); err != nil {
		fmt.Fprintln(os.Stderr, "suites:", err)
		os.Exit(1)
	}
}

func run(names []string, cover, only string) error {
	if err := os.MkdirAll("out", 0o755); err != nil {
		return err
	}
	if cover != "" {
		var err error
		if cover, err = prepareCoverage(cover); err != nil {
			return err
		}
	}
	products, err := os.MkdirTemp("", "ibrun-products")
	if err != nil {
		return err
	}
	defer os.RemoveAll(products)
	if err := os.Setenv("IBRUN_TEST_PRODUCTS", products); err != nil { // read by package product
		return err
	}
	var results []*result
	for _, name := range names {
		c, err := commandOf(name, only)
		if err != nil {
			return err
		}
		if cover != "" {
			c.binaries = ""
			c.flags = append(c.flags, "-cover", "-coverpkg=./...")
			c.args = append(c.args, "-test.gocoverdir="+cover)
		}
		r, err := c.run(os.Stdout)
		if err != nil {
			return err
		}
		results = append(results, r)
	}
	return report(results)
}

// commandOf returns the command of a suite. In a labelled suite, only is a
// regular expression for the names of the tests to run. Other suites ignore it.
func commandOf(name, only string) (command, error) {
	c := command{suite: name, flags: []string{"-count=1", "-shuffle=on"}, packages: []string{"./..."}}
	processes, labelled := labels[name]
	switch {
	case name == "test":
		c.binaries = filepath.Join("out", "binaries", name)
		c.env = []string{"CGO_ENABLED=0"}
	case name == "race":
		packages, err := concurrent(".")
		c.packages = packages
		c.flags = append(c.flags, "-race", "-timeout=20m")
		c.env = []string{"CGO_ENABLED=1", "GORACE=atexit_sleep_ms=10"}
		return c, err
	case labelled:
		tests, packages, err := labelledTests(".", name, only)
		if err != nil {
			return c, err
		}
		if len(tests) == 0 {
			return c, fmt.Errorf("no test has the label %s and matches %q", name, only)
		}
		c.packages = packages
		c.binaries = filepath.Join("out", "binaries", name)
		c.again = true
		c.flags = append(c.flags, "-vet=off", "-tags="+name, "-timeout=20m", fmt.Sprintf("-p=%d", processes), "-run=^("+strings.Join(tests, "|")+")$")
		if name == "soak" {
			c.flags = append(c.flags, "-timeout=5h")
		}
		if name == "ib" || name == "soak" {
			c.env = []string{"CGO_ENABLED=1"}
		}
	default:
		return c, fmt.Errorf("no such suite: %s", name)
	}
	return c, nil
}

// report prints the skipped tests, the unstable tests and the table. It returns an error if a test failed or
// too many tests are unstable.
func report(results []*result) error {
	var unstable []string
	failed, passed, skipped := 0, 0, 0
	for _, r := range results {
		printSkipped(r)
		for _, name := range r.unstable {
			unstable = append(unstable, r.suite+" "+name)
		}
		failed += len(r.failed)
		passed += r.passed
		skipped += len(r.skipped)
	}
	file := filepath.Join("out", "unstable.txt")
	text := strings.Join(unstable, "\n")
	if text != "" {
		text += "\n"
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return err
	}
	if text != "" {
		fmt.Printf("\nunstable (failed, then passed when run again alone; also in %s):\n%s", file, text)
	}
	fmt.Println()
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "suite\ttests\tfailed\tunstable\tskipped\tseconds\tCPU seconds\t")
	var wall, cpu time.Duration
	for _, r := range results {
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%.0f\t%.0f\t\n", r.suite, r.passed+len(r.failed)+len(r.unstable)+len(r.skipped),
			len(r.failed), len(r.unstable), len(r.skipped), r.wall.Seconds(), r.cpu.Seconds())
		wall += r.wall
		cpu += r.cpu
	}
	fmt.Fprintf(table, "all\t%d\t%d\t%d\t%d\t%.0f\t%.0f\t\n", passed+failed+len(unstable)+skipped, failed, len(unstable), skipped,
		wall.Seconds(), cpu.Seconds())
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Printf("\n%d passed, %d failed, %d skipped\n", passed+len(unstable), failed, skipped)
	if failed > 0 {
		return fmt.Errorf("%d tests failed", failed)
	}
	if len(unstable) > maxUnstable {
		return fmt.Errorf("%d tests are unstable", len(unstable))
	}
	return nil
}

// printSkipped prints the reasons why tests of a suite were skipped, each with its tests.
func printSkipped(r *result) {
	if len(r.skipped) == 0 {
		return
	}
	fmt.Printf("\nskipped in %s:\n", r.suite)
	tests := map[string][]string{}
	for _, s := range r.skipped {
		tests[s.reason] = append(tests[s.reason], s.name)
	}
	reasons := make([]string, 0, len(tests))
	for reason := range tests {
		reasons = append(reasons, reason)
	}
	slices.Sort(reasons)
	for _, reason := range reasons {
		fmt.Printf("  %s: %s\n", reason, strings.Join(tests[reason], " "))
	}
}
