package ibrun_test

import (
	"go/parser"
	"go/token"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// apart are folders that stay apart: nothing below the first imports anything below the second, not
// even through others.
var apart = []struct{ from, to, why string }{
	{"fabric", "job", "a driver moves bytes; what a job is, and what --stats counts, is for its callers"},
	{"fabric", "bootstrap", "the data plane runs without the launcher"},
	{"lazy/peer", "bootstrap", "a pair of ranks is no launcher's business"},
	{".", "bootstrap/wire", "a rank hears its agent; what agents say to each other is theirs"},
	{"lazy", "bootstrap/wire", "a rank hears its agent; what agents say to each other is theirs"},
	{"bootstrap/rankctl", "bootstrap/wire", "a rank hears its agent; what agents say to each other is theirs"},
	{"bootstrap", "fabric/ib", "an agent opens no endpoint; internal/netiface has the choice of an address"},
	{"bootstrap", "fabric/udp", "an agent opens no endpoint; internal/netiface has the choice of an address"},
	{"bootstrap", "lazy", "an agent passes frames on, and sends no message to a rank of another node"},
	{"doctor", "fabric/udp", "the doctor asks where data would go, and sends none"},
}

// reached lists the ways from packages of one room to those of another, by our own imports.
func reached(files []source, from, to string) (ways []string) {
	imports := importsOf(files)
	seen := map[string]bool{}
	var visit func(dir, by string)
	visit = func(dir, by string) {
		if seen[dir] {
			return
		}
		seen[dir] = true
		for _, name := range imports[dir] {
			next, ours := strings.CutPrefix(name, module+"/")
			switch {
			case !ours:
			case strings.HasPrefix(next+"/", to+"/"):
				ways = append(ways, by+" "+next)
			default:
				visit(next, by+" "+next)
			}
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(imports)) {
		if strings.HasPrefix(dir+"/", from+"/") {
			visit(dir, dir)
		}
	}
	return ways
}

// TestPolicyRooms holds apart what has no business with each other.
func TestPolicyRooms(t *testing.T) {
	files := sources(t)
	for _, rooms := range apart {
		require.Empty(t, reached(files, rooms.from, rooms.to), rooms.why)
		link := source{rooms.from + "/a.go", "package a\n\nimport _ \"ibrun/new\"\n"}
		end := source{"new/a.go", "package a\n\nimport _ \"ibrun/" + rooms.to + "\"\n"}
		ways := reached(append(slices.Clone(files), link, end), rooms.from, rooms.to)
		require.Contains(t, ways, rooms.from+" new "+rooms.to)
	}
}

// importsOf are the imports of each package, by its directory, without those of tests.
func importsOf(files []source) map[string][]string {
	imports := map[string][]string{}
	for _, f := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), f.path, f.text, parser.ImportsOnly)
		if err != nil || strings.HasSuffix(f.path, "_test.go") {
			continue
		}
		for _, spec := range parsed.Imports {
			name, _ := strconv.Unquote(spec.Path.Value)
			imports[path.Dir(f.path)] = append(imports[path.Dir(f.path)], name)
		}
	}
	return imports
}
