package ibrun_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// retired are words that ibrun once had for its parts, each with the field's word that took its
// place. No name, comment, message or document uses them: a reader would look for a second thing.
var retired = map[string]string{
	"door": "control channel", "guard": "reaper", "board": "KVS", "hub": "PMI server state", "story": "scenario",
	"stories": "scenarios", "kid": "child", "kids": "children", "seat": "slot", "seats": "slots", "detour": "fallback",
	"detours": "fallbacks", "lease": "failure detector", "leases": "failure detectors", "beat": "heartbeat",
	"beats": "heartbeats", "wish": "preference, bulk fetch", "wishes": "preferences", "winding": "draining",
	"lend": "read", "asker": "requester", "askers": "requesters", "incarnation": "epoch", "incarnations": "epochs",
	"law": "conformance suite", "laws": "conformance suites",
	"storm": "randomized schedule test", "storms": "randomized schedule tests",
	"hubs": "PMI server states", "doors": "control channels", "people": "users", "book": "cost cache",
	"books": "cost caches",
	"wind":  "drain", "winds": "drains", "wound": "drained", "weigh": "measure", "weighs": "measures",
	"weighed": "measured", "weighing": "load measurement", "lends": "reads", "lent": "read", "lending": "rendezvous",
	"pooled": "bulk fetched",
}

// wordsOfOthers are files that need a retired word: for its history, or since it is another's name.
var wordsOfOthers = map[string][]string{
	"CHANGELOG.md": nil, "docs/findings.md": nil, // history
	"LICENSE":                  nil, // the law
	"docs/glossary.md":         nil, // old terms
	"docs/before-after.md":     nil, // quotes them
	"policy_words_test.go":     nil,
	"internal/plan/environ.go": {"seat"}, // XDG_SEAT
	"docs/cli.md":              {"seat"},
	"topo/topotest/device.go":  {"board"}, // board_id of /sys
}

// parts takes names apart: rankSeats, RANK_SEAT and rank_seat each have the word.
var parts = regexp.MustCompile(`[A-Z]?[a-z]+|[A-Z]+`)

// checkWords finds retired words in a text.
func checkWords(name string, text []byte) (faults []string) {
	excused, listed := wordsOfOthers[name]
	if listed && excused == nil || bytes.IndexByte(text, 0) >= 0 {
		return nil
	}
	lower := bytes.ToLower(text)
	var near []string // most files have none of them, and are not taken apart
	for word := range retired {
		if bytes.Contains(lower, []byte(word)) {
			near = append(near, word)
		}
	}
	number := 0
	for line := range bytes.Lines(text) {
		number++
		has := func(word string) bool { return bytes.Contains(bytes.ToLower(line), []byte(word)) }
		if !slices.ContainsFunc(near, has) {
			continue
		}
		for _, part := range parts.FindAll(line, -1) {
			word := strings.ToLower(string(part))
			if use, gone := retired[word]; gone && !slices.Contains(excused, word) {
				faults = append(faults, fmt.Sprintf("%s:%d: %q is retired: write %s", name, number, part, use))
			}
		}
	}
	return faults
}

// vague are words that prose may use and names may not: each has been the name of several things.
// A function is named for what it does, and a field for what it has.
var vague = map[string]string{
	"told": "reported, given", "tell": "send, report", "tells": "sends, reports", "said": "sent, given",
	"say": "send, print", "says": "sends, prints", "heard": "received", "hear": "receive", "hears": "receives",
	"seen": "observed, found", "gone": "ended, lost", "settle": "decide, assign", "settles": "decides, assigns",
	"settled": "decided, at rest", "beside": "secondary", "besides": "secondary",
}

// vagueStill lists the folders that have such names. Entries only go: one without such a name
// fails.
var vagueStill = []string{
	"bootstrap/agent", "bootstrap/core", "bootstrap/pmiserver", "bootstrap/reaper",
	"bootstrap/spawn", "bootstrap/timing", "pmi",
}

// declared calls a function with each name of a package that others of it can use: types and their
// fields, functions, methods, constants and variables.
func declared(t *testing.T, f source, name func(*ast.Ident)) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), f.path, f.text, parser.SkipObjectResolution)
	require.NoError(t, err)
	for _, d := range file.Decls {
		if d, ok := d.(*ast.FuncDecl); ok {
			name(d.Name)
			continue
		}
		for _, spec := range d.(*ast.GenDecl).Specs {
			switch spec := spec.(type) {
			case *ast.ValueSpec:
				for _, n := range spec.Names {
					name(n)
				}
			case *ast.TypeSpec:
				name(spec.Name)
				if fields, ok := spec.Type.(*ast.StructType); ok {
					for _, field := range fields.Fields.List {
						for _, n := range field.Names {
							name(n)
						}
					}
				}
			}
		}
	}
}

// checkVague finds vague words in the names that files declare, but for the folders of a list.
func checkVague(t *testing.T, list []string, files []source) (faults []string) {
	t.Helper()
	needed := map[string]bool{}
	for _, f := range files {
		declared(t, f, func(id *ast.Ident) {
			for _, part := range parts.FindAllString(id.Name, -1) {
				use, found := vague[strings.ToLower(part)]
				switch folder := path.Dir(f.path); {
				case !found:
				case slices.Contains(list, folder):
					needed[folder] = true
				default:
					faults = append(faults, fmt.Sprintf("%s: %s: %q names several things: write %s", f.path, id.Name,
						strings.ToLower(part), use))
				}
			}
		})
	}
	for _, folder := range list {
		if !needed[folder] {
			faults = append(faults, folder+" has no such name any more: take it from the list")
		}
	}
	return faults
}

func TestPolicyNames(t *testing.T) {
	require.Empty(t, strings.Join(checkVague(t, vagueStill, sources(t)), "\n"))
}

// TestPolicyNamesFail shows each kind of name failing, and what may have such words.
func TestPolicyNamesFail(t *testing.T) {
	for text, want := range map[string]string{
		"type seen int":                 `seen: "seen" names several things: write observed, found`,
		"type a struct{ portTold int }": `portTold: "told" names several things: write reported, given`,
		"func hearHello() {}":           `hearHello: "hear" names several things: write receive`,
		"func (a b) Settle() {}":        `Settle: "settle" names several things: write decide, assign`,
		"var isGone, b int":             `isGone: "gone" names several things: write ended, lost`,
		"const beside = 1":              `beside: "beside" names several things: write secondary`,
		"func a(told int) { seen := told; _ = seen } // what was said": "",
		"func heartbeat() {}": "",
	} {
		files := []source{{"a/a.go", "package a\n\n" + text + "\n"}}
		if want == "" {
			require.Empty(t, checkVague(t, nil, files))
			require.Equal(t, []string{"a has no such name any more: take it from the list"},
				checkVague(t, []string{"a"}, files))
			continue
		}
		require.Equal(t, []string{"a/a.go: " + want}, checkVague(t, nil, files))
		require.Empty(t, checkVague(t, []string{"a"}, files))
	}
}

// TestPolicyWords: one term, one meaning (docs/glossary.md).
func TestPolicyWords(t *testing.T) {
	var faults []string
	files := 0
	require.NoError(t, fs.WalkDir(os.DirFS("."), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && slices.Contains([]string{".git", "bin", "out"}, entry.Name()) {
			return fs.SkipDir
		}
		if !entry.Type().IsRegular() {
			return nil
		}
		text, err := os.ReadFile(name)
		faults = append(faults, checkWords(name, text)...)
		faults = append(faults, checkWords("the path", []byte(name))...)
		files++
		return err
	}))
	require.Greater(t, files, 100)
	require.Empty(t, faults)
}

func TestPolicyWordsFails(t *testing.T) {
	require.Len(t, checkWords("a.go", []byte("type rankSeats int // the KID's, of MY_HUB\n")), 3)
	require.Len(t, checkWords("internal/plan/environ.go", []byte("XDG_SEAT, kid")), 1)
	require.Len(t, checkWords("the path", []byte("core/testdata/seats-ended.txt")), 1)
	require.Empty(t, checkWords("docs/glossary.md", []byte("seat")))
	require.Empty(t, checkWords("a.go", []byte("heartbeat Blackboard guards")))
}
