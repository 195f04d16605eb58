package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// module writes the files of a module, by their names, to a temporary folder. It returns the folder.
func module(t *testing.T, files map[string]string) string {
	root := t.TempDir()
	for name, text := range files {
		require.NoError(t, os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o600))
	}
	return root
}

func TestLabelledTestsFindsTestsByTag(t *testing.T) {
	root := module(t, map[string]string{
		"a/plain_test.go":        "package a\n\nfunc TestPlain(t T) {}\n",
		"a/a_mpi_test.go":        "//go:build mpi\n\npackage a\n\nfunc TestMPI(t T) {}\nfunc helper() {}\n",
		"test/mpi/both_test.go":  "//go:build mpi || cluster\n\npackage both\n\nfunc TestMain(m M) {}\nfunc TestBoth(t T) {}\n",
		"test/mpi/negative.go":   "//go:build !mpi\n\npackage both\n",
		"b/small_test.go":        "//go:build !soak\n\npackage b\n\nfunc TestSmall(t T) { go f() }\n",
		"b/arch_test.go":         "//go:build linux && amd64\n\npackage b\n\nfunc TestArch(t T) {}\n",
		"b/c_cluster_test.go":    "//go:build cluster && linux\n\npackage b\n\nfunc TestC(t T) {}\n",
		"b/testdata/x_test.go":   "//go:build mpi\n\npackage x\n\nfunc TestX(t T) {}\n",
		"b/code.go":              "package b\n",
		"c/starts_goroutines.go": "package c\n\nfunc f() { go g() }\n",
		"d/only_test.go":         "package d\n\nfunc TestD(t T) { go f() }\n",
	})
	tests, packages, err := labelledTests(root, "mpi", "")
	require.NoError(t, err)
	require.Equal(t, []string{"TestBoth", "TestMPI"}, tests)
	require.Equal(t, []string{"./test/mpi", "./a"}, packages)
	tests, packages, err = labelledTests(root, "cluster", "C|Both")
	require.NoError(t, err)
	require.Equal(t, []string{"TestBoth", "TestC"}, tests)
	require.Equal(t, []string{"./test/mpi", "./b"}, packages)
	packages, err = concurrent(root)
	require.NoError(t, err)
	require.Equal(t, []string{"./b"}, packages, "c has no tests, d has no code")
}

func TestReadReportsFailuresAndSkips(t *testing.T) {
	events := `{"Action":"run","Package":"m/p","Test":"TestA"}
{"Action":"output","Package":"m/p","Test":"TestA","Output":"    a_test.go:7: broken\n"}
{"Action":"fail","Package":"m/p","Test":"TestA"}
{"Action":"output","Package":"m/p","Test":"TestB","Output":"    b_test.go:9: needs root\n"}
{"Action":"skip","Package":"m/p","Test":"TestB"}
{"Action":"pass","Package":"m/p","Test":"TestC/one"}
{"Action":"pass","Package":"m/p","Test":"TestC"}
{"Action":"output","Package":"m/p","Output":"FAIL\tm/p\t0.1s\n"}
{"Action":"fail","Package":"m/p"}
{"ImportPath":"m/q","Action":"build-output","Output":"q.go:1: no such thing\n"}
{"Action":"fail","Package":"m/q"}
`
	var out strings.Builder
	r, err := read(strings.NewReader(events), &out)
	require.NoError(t, err)
	require.Equal(t, 2, r.passed)
	require.Equal(t, []string{"m/p TestA", "m/q"}, r.failed)
	require.Equal(t, []skip{{"m/p TestB", "needs root"}}, r.skipped)
	require.Equal(t, "    a_test.go:7: broken\nFAIL\tm/p\t0.1s\nq.go:1: no such thing\n", out.String())
}

// TestRunRepeatsFailedTests requires that a test that passes when it is run again is unstable, and that a test that
// fails twice has failed.
func TestRunRepeatsFailedTests(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "mark")
	t.Chdir(module(t, map[string]string{
		"go.mod": "module m\n\ngo 1.26\n",
		"m_test.go": `package m

import (
	"os"
	"testing"
)

func TestOnce(t *testing.T) {
	if os.Mkdir(` + "`" + mark + "`" + `, 0o700) == nil {
		t.Fatal("first run")
	}
}

func TestAlways(t *testing.T) { t.Fatal("always") }

func TestGood(t *testing.T) {}
`,
	}))
	require.NoError(t, os.Mkdir("out", 0o700))
	var out strings.Builder
	c := command{suite: "cluster", flags: []string{"-count=1", "-vet=off"}, packages: []string{"."}, binaries: filepath.Join("out", "binaries"), again: true}
	r, err := c.run(&out)
	require.NoError(t, err)
	require.Equal(t, 1, r.passed, out.String())
	require.Equal(t, []string{"m TestOnce"}, r.unstable)
	require.Equal(t, []string{"m TestAlways"}, r.failed)
	require.FileExists(t, filepath.Join("out", "binaries", "1", "m.test"))
	require.ErrorContains(t, report([]*result{r}), "1 tests failed")
	require.NoError(t, report([]*result{{suite: "cluster", unstable: []string{"a", "b"}}}))
	require.ErrorContains(t, report([]*result{{suite: "cluster", unstable: []string{"a", "b"}}, {suite: "mpi", unstable: []string{"c"}}}), "3 tests are unstable")
}

// TestGroupsSeparatesPackagesOfOneName requires that no two packages of a group have the same name, and that each
// package is in one group.
func TestGroupsSeparatesPackagesOfOneName(t *testing.T) {
	t.Chdir(module(t, map[string]string{
		"go.mod":      "module m\n\ngo 1.26\n",
		"a/x/x.go":    "package x\n",
		"b/x/x.go":    "package x\n",
		"c/y/y.go":    "package y\n",
		"cmd/m/m.go":  "package main\n\nfunc main() {}\n",
		"m_other.go":  "package m\n",
		"d/d_test.go": "package d\n",
	}))
	groups, err := command{flags: []string{"-count=1"}, packages: []string{"./..."}, binaries: "bin"}.groups()
	require.NoError(t, err)
	require.Len(t, groups, 2)
	require.Equal(t, []string{"m", "m/a/x", "m/c/y", "m/d"}, groups[0].packages)
	require.Equal(t, []string{"m/b/x", "m/cmd/m"}, groups[1].packages)
	require.Equal(t, []string{"-count=1", "-ldflags=-s -w", "-o", "bin/2/"}, groups[1].flags)
	require.DirExists(t, "bin/2")
}
