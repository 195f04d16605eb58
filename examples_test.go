package ibrun_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each exported function, each method, and each type of error has an example, which prints what it
// says that it prints, unless it cannot run without ibrun.
func TestExamples(t *testing.T) {
	set := token.NewFileSet()
	var files []*ast.File
	entries, err := os.ReadDir(".")
	require.NoError(t, err)
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".go") {
			f, err := parser.ParseFile(set, e.Name(), nil, parser.ParseComments)
			require.NoError(t, err)
			files = append(files, f)
		}
	}
	p, err := doc.NewFromFiles(set, files, "ibrun")
	require.NoError(t, err)
	shown := func(name string, examples []*doc.Example, compiled bool) {
		require.NotEmpty(t, examples, "%s has no example", name)
		for _, e := range examples {
			require.Equal(t, compiled, e.Output == "", "output of the example of %s", name)
		}
	}
	for _, f := range p.Funcs {
		shown(f.Name, f.Examples, false)
	}
	methods := 0
	for _, typ := range p.Types {
		for _, f := range typ.Funcs {
			shown(f.Name, f.Examples, false)
		}
		if strings.HasSuffix(typ.Name, "Error") {
			shown(typ.Name, typ.Examples, false)
			continue
		}
		for _, m := range typ.Methods {
			methods++
			shown(typ.Name+"."+m.Name, m.Examples, m.Name == "Abort")
		}
	}
	require.Greater(t, methods, 20)
}
