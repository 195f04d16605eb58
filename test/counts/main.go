// Counts prints three numbers about the state machine of an agent for test/measure, one per line. The first is the
// number of methods of Core in bootstrap/core, including functions with a parameter *Core. The second is the number of
// files that contain them. The third is the number of boolean struct fields in bootstrap/core and its packages child
// and recovery. Fields of events, effects and the configuration are not counted, because they hold no state.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	const core = "bootstrap/core"
	methods, files, booleans := 0, map[string]bool{}, map[string]int{} // booleans is keyed by the name of the type
	stateless := []string{core + ".Config", core + ".Policy"}
	for _, folder := range []string{core, core + "/child", core + "/recovery"} {
		paths, err := filepath.Glob(folder + "/*.go")
		if err != nil || len(paths) == 0 {
			panic("there are no Go files in " + folder)
		}
		for _, path := range slices.DeleteFunc(paths, func(p string) bool { return strings.HasSuffix(p, "_test.go") }) {
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				panic(err)
			}
			for _, d := range file.Decls {
				f, ok := d.(*ast.FuncDecl)
				switch {
				case !ok:
				case f.Name.Name == "IsEvent" || f.Name.Name == "IsEffect":
					stateless = append(stateless, folder+"."+types.ExprString(f.Recv.List[0].Type))
				case folder == core && slices.ContainsFunc(parameters(f), isCore):
					methods, files[path] = methods+1, true
				}
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if t, ok := n.(*ast.TypeSpec); ok {
					booleans[folder+"."+t.Name.Name] += countBooleans(t)
				}
				return true
			})
		}
	}
	total := 0
	for name, n := range booleans {
		if !slices.Contains(stateless, name) {
			total += n
		}
	}
	fmt.Printf("%d\n%d\n%d\n", methods, len(files), total)
}

// parameters returns the receiver and the parameters of f.
func parameters(f *ast.FuncDecl) []*ast.Field {
	if f.Recv == nil {
		return f.Type.Params.List
	}
	return append(slices.Clone(f.Recv.List), f.Type.Params.List...)
}

func isCore(p *ast.Field) bool { return types.ExprString(p.Type) == "*Core" }

// countBooleans returns the number of boolean fields in the type t, including those of anonymous structs in t.
func countBooleans(t *ast.TypeSpec) (n int) {
	ast.Inspect(t.Type, func(node ast.Node) bool {
		if s, ok := node.(*ast.StructType); ok {
			for _, field := range s.Fields.List {
				if types.ExprString(field.Type) == "bool" {
					n += max(1, len(field.Names))
				}
			}
		}
		return true
	})
	return n
}
