// Command messages lists the strings of ibrun that a user can see: `make messages`. One line for
// each, with its place and the call that it goes into, so that all can be read in one go. It reads
// the source by go/ast. It does not run ibrun, and does not judge the texts: its test holds a few
// rules for them.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// message is one text: a string literal, or several that are added.
type message struct {
	place string // file:line
	call  string // the innermost call or composite literal around it, as Errorf; empty: none
	text  string // %s stands for what is added to it and is no literal
}

// sentence is a text with two words at least.
var sentence = regexp.MustCompile(`\pL\pP? +[\pL%"'(]`)

// find lists the messages of one Go file. Tags of structs and texts of several lines, such as shell
// scripts, are none; the text of --help is one.
func find(name string, text any) (found []message, err error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var around []ast.Node
	inSum := map[ast.Node]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		if n == nil {
			around = around[:len(around)-1]
			return true
		}
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			if n.Tag != nil {
				inSum[n.Tag] = true
			}
		case *ast.BinaryExpr, *ast.BasicLit:
			if !inSum[n] {
				said, whole := spell(n.(ast.Expr), inSum)
				if whole && sentence.MatchString(said) && strings.Count(strings.TrimSpace(said), "\n") == 0 {
					at := set.Position(n.Pos())
					found = append(found, message{fmt.Sprintf("%s:%d", name, at.Line), caller(around), said})
				}
			}
		}
		around = append(around, n)
		return true
	})
	return found, nil
}

// spell writes a sum of strings as one text, and marks its parts as read. ok is false for what has
// no literal in it, and for what is no sum.
func spell(e ast.Expr, read map[ast.Node]bool) (text string, ok bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind != token.STRING {
			return "", false
		}
		read[e] = true
		text, err := strconv.Unquote(e.Value)
		return text, err == nil
	case *ast.BinaryExpr:
		if e.Op != token.ADD {
			return "", false
		}
		x, isX := spell(e.X, read)
		y, isY := spell(e.Y, read)
		if !isX && !isY {
			return "", false
		}
		read[e] = true
		if !isX {
			x = "%s"
		}
		if !isY {
			y = "%s"
		}
		return x + y, true
	}
	return "", false
}

// caller names the innermost call or literal of a named type.
func caller(around []ast.Node) string {
	for _, n := range slices.Backward(around) {
		var what ast.Expr
		switch n := n.(type) {
		case *ast.CallExpr:
			what = n.Fun
		case *ast.CompositeLit:
			what = n.Type
		}
		switch what := what.(type) {
		case *ast.Ident:
			return what.Name
		case *ast.SelectorExpr:
			return what.Sel.Name
		}
	}
	return ""
}

// all lists the messages of the module in root: of ibrun and of the package, not of tests, examples
// and benchmarks.
func all(root string) (found []message, err error) {
	err = fs.WalkDir(os.DirFS(root), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && slices.Contains([]string{".git", "bin", "out", "test", "examples",
			"fabric/fabrictest",
			"test/fuzzed", "test/skip", "topo/topotest", "topo/hwloctest"}, name) {
			return fs.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path.Join(root, name))
		if err != nil {
			return err
		}
		of, err := find(name, text)
		found = append(found, of...)
		return err
	})
	return found, err
}

func main() {
	found, err := all(".")
	if err != nil {
		fmt.Fprintln(os.Stderr, "messages:", err)
		os.Exit(1)
	}
	for _, m := range found {
		fmt.Printf("%s\t%s\t%s\n", m.place, m.call, m.text)
	}
}
