package main

import (
	"cmp"
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// walk calls visit for each Go file below root, with its path relative to root.
func walk(root string, visit func(path string, file *ast.File) error) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{".git", "bin", "out", "testdata", "tools"}, entry.Name()):
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, ".go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		return visit(relative, file)
	})
}

// hasLabel reports whether a file is built only with a label.
func hasLabel(file *ast.File, label string) bool {
	for _, group := range file.Comments {
		if group.Pos() > file.Package {
			break
		}
		for _, c := range group.List {
			expr, err := constraint.Parse(c.Text)
			if err == nil {
				with := expr.Eval(func(tag string) bool { return tag == label || labels[tag] == 0 })
				without := expr.Eval(func(tag string) bool { return labels[tag] == 0 })
				return with && !without
			}
		}
	}
	return false
}

// labelledTests returns the names of the tests that have a label and match a pattern, and their packages. The
// packages with the most code in these tests come first: they take longest, so they must not start last.
func labelledTests(root, label, pattern string) (tests, packages []string, err error) {
	matches, err := regexp.Compile(pattern)
	if err != nil {
		return nil, nil, err
	}
	names, sizes := map[string]bool{}, map[string]int{} // sizes holds the bytes of test functions, by package
	err = walk(root, func(path string, file *ast.File) error {
		if !strings.HasSuffix(path, "_test.go") || !hasLabel(file, label) {
			return nil
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") && f.Name.Name != "TestMain" && matches.MatchString(f.Name.Name) {
				names[f.Name.Name] = true
				sizes["./"+filepath.ToSlash(filepath.Dir(path))] += int(f.End() - f.Pos())
			}
		}
		return nil
	})
	packages = slices.SortedFunc(maps.Keys(sizes), func(a, b string) int {
		return cmp.Or(cmp.Compare(sizes[b], sizes[a]), cmp.Compare(a, b))
	})
	return slices.Sorted(maps.Keys(names)), packages, err
}

// concurrent returns the packages that start goroutines and have tests as well as other code. It leaves out packages
// that have tests only: they test programs, which are built without the race detector.
func concurrent(root string) ([]string, error) {
	starts, tested, code := map[string]bool{}, map[string]bool{}, map[string]bool{}
	err := walk(root, func(path string, file *ast.File) error {
		dir := "./" + filepath.ToSlash(filepath.Dir(path))
		for label := range labels {
			if hasLabel(file, label) {
				return nil
			}
		}
		if strings.HasSuffix(path, "_test.go") {
			tested[dir] = true
		} else {
			code[dir] = true
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				starts[dir] = true
			case *ast.SelectorExpr:
				starts[dir] = starts[dir] || n.Sel.Name == "AfterFunc"
			}
			return !starts[dir]
		})
		return nil
	})
	maps.DeleteFunc(starts, func(dir string, found bool) bool { return !found || !tested[dir] || !code[dir] })
	return slices.Sorted(maps.Keys(starts)), err
}
