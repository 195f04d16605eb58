package ibrun_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "ibrun"

// floors says who may import whom: only from a lower floor (docs/decisions/0001-floors.md). The
// longest pattern that fits a package's directory decides; /... stands for everything below.
var floors = map[string]int{
	"internal/...":               0,
	"internal/build":             1, // over pseudo
	"internal/build/pack":        2,
	"internal/build/pack/into":   3, // a command
	"internal/cgroup":            1, // over pseudo
	"internal/proc":              1, // over cpuset
	"internal/alloc":             2, // over job
	"internal/program":           3, // over job
	"internal/scratch":           1, // over owned
	"internal/textfile":          1, // over hostlist
	"internal/mpir/symbols/keep": 1,
	"bootstrap/tree":             1,
	"fabric":                     1,
	"cgo/verbs":                  1,
	"fabric/ib/pathrecord":       1,
	"job":                        1,
	"bootstrap/frame":            1,
	"bootstrap/frame/...":        2, // for tests, over job
	"bootstrap/rankwire":         2,
	"bootstrap/wire":             3,
	"bootstrap/timing":           3,
	"bootstrap/timing/...":       4,
	"bootstrap/core":             5,
	"bootstrap/core/...":         3, // beside wire: they do not know the frames of agents
	"bootstrap/core/subtree":     2,
	"bootstrap/core/sessions":    4, // over collective
	"bootstrap/flight":           6,
	"lazy/peer":                  4,
	"lazy/upgrade":               4,
	"charm":                      2,
	"pmi":                        4,
	"pmix":                       4,
	"pmix/pmixtest":              5, // for tests
	"topo":                       3,
	"topo/...":                   4,
	"topo/hwloctest":             5, // for tests, over all of topo
	"doctor":                     4,
	"doctor/findings":            5,
	"internal/costfile":          4,
	"internal/standing":          4,
	"internal/ctl":               6,
	"bootstrap/control":          5,
	"bootstrap/inspect":          4,
	"internal/options":           3,
	"internal/plan":              6,
	"doctor/examine":             6,
	"bootstrap/remote":           5,
	"bootstrap/remote/native":    4,
	"bootstrap/spawn":            5,
	"bootstrap/rankctl":          5,
	"internal/report":            7,
	"bootstrap/reaper":           4, // below remote, which names its role
	"bootstrap/pmiserver":        5,
	"bootstrap/charmserver":      4,
	"bootstrap/pmixserver":       5,
	"lazy":                       5,
	"fabric/...":                 5,
	"bootstrap/agent":            7,
	".":                          6,
	"internal/launch":            8,
	"internal/survey":            9,
	"cmd/...":                    10,
	"examples/...":               7,
	"test/...":                   11, // may import anything, each other too
}

const testFloor = 11

// pure packages decide and do nothing: what they import and call can neither wait, read a clock nor
// reach the machine.
var pure = []string{
	"bootstrap/tree", "bootstrap/timing", "bootstrap/timing/views", "bootstrap/frame",
	"bootstrap/rankwire", "bootstrap/wire", "bootstrap/core", "bootstrap/core/bulk",
	"bootstrap/core/collective", "bootstrap/core/daemons", "bootstrap/core/lookup", "bootstrap/core/names",
	"bootstrap/core/pairs",
	"bootstrap/core/queries", "bootstrap/core/repair", "bootstrap/core/sessions", "bootstrap/core/subtree",
	"internal/standing",
	"bootstrap/flight", "bootstrap/pmiserver", "bootstrap/pmixserver",
	"bootstrap/charmserver", "charm",
	"job", "lazy/peer", "lazy/upgrade", "pmi", "pmix", "topo", "topo/bind", "topo/near",
	"topo/draw", "topo/hwlocxml", "doctor", "internal/alloc", "internal/options", "internal/plan",
}

var (
	impureImport = regexp.MustCompile(
		`^(net|os|sync|syscall|unsafe|runtime|math/rand|crypto/rand|golang\.org/x/sys)(/|$)`)
	impureTime = []string{"Now", "Since", "Until", "After", "AfterFunc", "Sleep", "NewTimer", "NewTicker", "Tick"}
	vagueWord  = regexp.MustCompile(`^(manager|handler|helper|helpers|util|utils|common|info|data|impl)$`)
	camelWord  = regexp.MustCompile(`[A-Z]?[a-z0-9]+|[A-Z]+`)
)

const maxLines = 500

// source is one Go file: its path in the repository and its text.
type source struct{ path, text string }

// floorOf finds a package's floor by its directory.
func floorOf(table map[string]int, dir string) (int, bool) {
	if floor, ok := table[dir]; ok {
		return floor, true
	}
	for up := dir; up != "."; {
		up = path.Dir(up)
		if floor, ok := table[up+"/..."]; ok {
			return floor, true
		}
	}
	return 0, false
}

// check holds all files against the rules and returns what breaks them.
func check(table map[string]int, files []source) (faults []string) {
	documented := map[string][]string{} // the files with a package comment, by directory
	for _, f := range files {
		dir := path.Dir(f.path)
		fault := func(format string, args ...any) {
			faults = append(faults, f.path+": "+fmt.Sprintf(format, args...))
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), f.path, f.text, parser.ParseComments)
		if err != nil {
			fault("%v", err)
			continue
		}
		if nice, err := format.Source([]byte(f.text)); err != nil || !bytes.Equal(nice, []byte(f.text)) {
			fault("not formatted: gofmt -w %s", f.path)
		}
		if n := strings.Count(f.text, "\n"); n > maxLines {
			fault("%d lines: one idea per file, %d lines at most", n, maxLines)
		}
		if _, ok := floorOf(table, dir); !ok {
			fault("package %s has no floor: give it one in policy_test.go", dir)
		}
		test := strings.HasSuffix(f.path, "_test.go")
		if !test {
			where := documented[dir]
			if parsed.Doc != nil {
				where = append(where, f.path)
			}
			documented[dir] = where
			checkImports(table, dir, parsed, fault)
		}
		if test && calls(parsed, "time", []string{"Sleep"}) != "" {
			fault("time.Sleep in a test: wait for an event with a deadline")
		}
		if test && writesProgram(parsed) {
			fault("os.WriteFile of a program: use executable.Write, or it may be busy when it is started")
		}
		if name := methods(parsed, []string{"Skip", "Skipf", "SkipNow"}); name != "" && dir != "internal/skip" {
			fault("%s: use skip.Because, or make test does not tell what was left out", name)
		}
		for _, spec := range parsed.Imports {
			if spec.Path.Value == `"C"` && !strings.HasPrefix(dir+"/", "cgo/") {
				fault(`import "C" outside cgo/`)
			}
		}
		checkNames(f.path, parsed, fault)
	}
	for dir, where := range documented {
		switch len(where) {
		case 0:
			faults = append(faults, dir+": no package comment: say what it is and what it refuses to do")
		case 1:
		default:
			faults = append(faults, fmt.Sprintf("%s: package comments in %s: one, or go doc shows both", dir,
				strings.Join(where, " and ")))
		}
	}
	slices.Sort(faults)
	return faults
}

// checkImports finds arrows that go up or sideways, and what a pure package must not reach.
func checkImports(table map[string]int, dir string, file *ast.File, fault func(string, ...any)) {
	floor, _ := floorOf(table, dir)
	isPure := slices.Contains(pure, dir)
	for _, spec := range file.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		if isPure && impureImport.MatchString(name) {
			fault("a pure package imports %q", name)
		}
		to, ours := strings.CutPrefix(name, module+"/")
		if name == module {
			to, ours = ".", true
		}
		if !ours || floor == testFloor {
			continue
		}
		if below, ok := floorOf(table, to); ok && below >= floor {
			way := "up"
			if below == floor {
				way = "sideways"
			}
			fault("floor %d imports %q on floor %d: %s", floor, name, below, way)
		}
	}
	if isPure {
		if name := calls(file, "time", impureTime); name != "" {
			fault("a pure package uses time.%s", name)
		}
	}
}

// calls returns the first of some names of a package that a file uses.
func calls(file *ast.File, pkg string, names []string) (found string) {
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && found == "" {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == pkg && slices.Contains(names, s.Sel.Name) {
				found = s.Sel.Name
			}
		}
		return true
	})
	return found
}

// methods returns the first of some names that a file calls of anything.
func methods(file *ast.File, names []string) (found string) {
	ast.Inspect(file, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && found == "" {
			if s, ok := call.Fun.(*ast.SelectorExpr); ok && slices.Contains(names, s.Sel.Name) {
				found = s.Sel.Name
			}
		}
		return true
	})
	return found
}

// writesProgram tells whether a file calls os.WriteFile for what may be run.
func writesProgram(file *ast.File) (found bool) {
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) != 3 {
			return true
		}
		if s, ok := call.Fun.(*ast.SelectorExpr); !ok || s.Sel.Name != "WriteFile" {
			return true
		}
		if mode, ok := call.Args[2].(*ast.BasicLit); ok {
			bits, err := strconv.ParseUint(mode.Value, 0, 32)
			found = found || err == nil && bits&0o111 != 0
		}
		return true
	})
	return found
}

// checkNames finds words that say nothing in the names of files and of what they declare.
func checkNames(name string, file *ast.File, fault func(string, ...any)) {
	names := strings.FieldsFunc(strings.TrimSuffix(name, ".go"), func(r rune) bool {
		return strings.ContainsRune("/_.-",
			r)
	})
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			names = append(names, d.Name.Name)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if t, ok := spec.(*ast.TypeSpec); ok {
					names = append(names, t.Name.Name)
				}
			}
		}
	}
	for _, name := range names {
		for _, word := range camelWord.FindAllString(name, -1) {
			if vagueWord.MatchString(strings.ToLower(word)) {
				fault("%s: %q says nothing", name, word)
			}
		}
	}
}

// withC lists what the program of a package links that has C in it, through our own packages.
func withC(files []source, main string) (found []string) {
	imports := importsOf(files)
	seen := map[string]bool{}
	var visit func(dir, by string)
	visit = func(dir, by string) {
		if seen[dir] {
			return
		}
		seen[dir] = true
		by += " " + dir
		for _, name := range imports[dir] {
			to, ours := strings.CutPrefix(name, module+"/")
			switch {
			case name == "C":
				found = append(found, by[1:])
			case name == module:
				visit(".", by)
			case ours:
				visit(to, by)
			}
		}
	}
	visit(main, "")
	slices.Sort(found)
	return slices.Compact(found)
}

// TestPolicyLauncherHasNoC: ibrun is one static binary that ships itself; C is
// for applications.
func TestPolicyLauncherHasNoC(t *testing.T) {
	files := sources(t)
	require.Empty(t, withC(files, "cmd/ibrun"))
	require.Equal(t, []string{"cgo/verbs"}, withC(files, "cgo/verbs"))
	files = append(files, source{"bootstrap/agent/a.go", "package agent\n\nimport _ \"ibrun/cgo/verbs\"\n"})
	require.Equal(t, []string{"cmd/ibrun bootstrap/agent cgo/verbs"}, withC(files, "cmd/ibrun"))
}

func sources(t *testing.T) (files []source) {
	require.NoError(t, fs.WalkDir(os.DirFS("."), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && slices.Contains([]string{".git", "bin", "out", "testdata"}, entry.Name()) {
			return fs.SkipDir
		}
		if !entry.IsDir() && strings.HasSuffix(name, ".go") {
			text, err := os.ReadFile(name)
			files = append(files, source{name, string(text)})
			return err
		}
		return nil
	}))
	require.Greater(t, len(files), 10)
	return files
}

func TestPolicy(t *testing.T) {
	require.Empty(t, check(floors, sources(t)))
}

// TestPolicyFails shows each rule failing on a file made for it.
func TestPolicyFails(t *testing.T) {
	file := func(name, body string) source {
		return source{name, "// Package p is made up.\npackage p\n\n" + body}
	}
	for name, c := range map[string]struct {
		file source
		want string
	}{
		"arrow up": {file("job/a.go", "import _ \"ibrun/bootstrap/core\"\n"),
			"floor 1 imports \"ibrun/bootstrap/core\" on floor 5: up"},
		"arrow sideways": {file("pmi/a.go", "import _ \"ibrun/topo/bind\"\n"),
			"floor 4 imports \"ibrun/topo/bind\" on floor 4: sideways"},
		"arrow to root": {file("lazy/a.go", "import _ \"ibrun\"\n"), "floor 5 imports \"ibrun\" on floor 6: up"},
		"no floor":      {file("new/a.go", "var a int\n"), "package new has no floor"},
		"C":             {file("fabric/ib/a.go", "import \"C\"\n"), "import \"C\" outside cgo/"},
		"socket":        {file("topo/a.go", "import _ \"net/netip\"\n"), "a pure package imports \"net/netip\""},
		"process":       {file("topo/a.go", "import _ \"os/exec\"\n"), "a pure package imports \"os/exec\""},
		"lock":          {file("pmi/a.go", "import _ \"sync\"\n"), "a pure package imports \"sync\""},
		"randomness":    {file("job/a.go", "import _ \"math/rand/v2\"\n"), "a pure package imports \"math/rand/v2\""},
		"clock":         {file("job/a.go", "import \"time\"\n\nvar now = time.Now\n"), "a pure package uses time.Now"},
		"format":        {file("job/a.go", "var  a int\n"), "not formatted"},
		"no comment":    {source{"job/a.go", "package job\n"}, "no package comment"},
		"long":          {file("job/a.go", strings.Repeat("// line\n", 500)), "503 lines"},
		"vague name":    {file("job/a.go", "type jobManager struct{}\n"), "jobManager: \"Manager\" says nothing"},
		"vague file":    {file("internal/x/net_util.go", "var a int\n"), "\"util\" says nothing"},
		"skip":          {file("job/a_test.go", "func f(t T) { t.Skipf(\"why\") }\n"), "Skipf: use skip.Because"},
		"sleep": {file("job/a_test.go", "import \"time\"\n\nfunc f() { time.Sleep(1) }\n"),
			"time.Sleep in a test"},
		"busy": {file("job/a_test.go", "import \"os\"\n\nvar e = os.WriteFile(\"a\", nil, 0o700)\n"),
			"os.WriteFile of a program"},
	} {
		t.Run(name, func(t *testing.T) {
			faults := check(floors, []source{c.file})
			require.Len(t, faults, 1)
			require.Contains(t, faults[0], c.want)
		})
	}
	t.Run("two comments", func(t *testing.T) {
		faults := check(floors, []source{file("job/a.go", "var a int\n"), file("job/b.go", "var b int\n")})
		require.Equal(t, []string{"job: package comments in job/a.go and job/b.go: one, or go doc shows both"}, faults)
	})
	t.Run("right arrows", func(t *testing.T) {
		require.Empty(t, check(floors, []source{
			file("bootstrap/core/a.go", "import (\n\t\"time\"\n\n\t_ \"ibrun/job\"\n)\n\nvar d time.Duration\n"),
			file("test/e2e/a.go", "import _ \"ibrun/test/vcluster/cluster\"\n"),
			file("cgo/verbs/a.go", "import \"C\"\n"),
		}))
	})
	t.Run("turned table", func(t *testing.T) {
		turned := map[string]int{"job": 3, "bootstrap/wire": 2}
		faults := check(turned, []source{file("bootstrap/wire/a.go", "import _ \"ibrun/job\"\n")})
		require.Len(t, faults, 1)
		require.Contains(t, faults[0], "up")
	})
}
