package ibrun_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// concurrent are the places of a file where goroutines begin or are thought of.
func concurrent(t *testing.T, name, text string) (places []string) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, 0)
	require.NoError(t, err)
	for _, i := range file.Imports {
		if i.Path.Value == `"sync"` || i.Path.Value == `"sync/atomic"` {
			places = append(places, fset.Position(i.Pos()).String())
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			places = append(places, fset.Position(n.Pos()).String())
		case *ast.SelectorExpr:
			if n.Sel.Name == "AfterFunc" { // of time or context: its function runs in a goroutine
				places = append(places, fset.Position(n.Pos()).String())
			}
		}
		return true
	})
	return places
}

// TestPolicySequential: packages whose tests run without the race detector begin no goroutine.
func TestPolicySequential(t *testing.T) {
	makefile, err := os.ReadFile("Makefile")
	require.NoError(t, err)
	found := regexp.MustCompile(`(?m)^SEQUENTIAL := (.*)$`).FindStringSubmatch(string(makefile))
	require.NotNil(t, found)
	sequential, err := regexp.Compile("^(" + found[1] + ")$")
	require.NoError(t, err)
	list, err := exec.Command("go", "list", "-f", "{{.ImportPath}}\t{{.Dir}}", "./...").Output()
	require.NoError(t, err)
	packages := 0
	for line := range strings.Lines(string(list)) {
		name, dir, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if !sequential.MatchString(name) {
			continue
		}
		packages++
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		require.NoError(t, err)
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Empty(t, concurrent(t, file, string(text)), "%s is in SEQUENTIAL of the Makefile", name)
		}
	}
	require.Greater(t, packages, 40)

	for _, text := range []string{"import \"sync\"", "import \"sync/atomic\"", "func f() { go f() }",
		"import \"time\"\nfunc f() { time.AfterFunc(1, f) }"} {
		require.Len(t, concurrent(t, "bad.go", "package bad\n"+text), 1, text)
	}
}
