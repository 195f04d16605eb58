package ibrun_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
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
	number := 0
	for line := range bytes.Lines(text) {
		number++
		for _, part := range parts.FindAll(line, -1) {
			word := strings.ToLower(string(part))
			if use, gone := retired[word]; gone && !slices.Contains(excused, word) {
				faults = append(faults, fmt.Sprintf("%s:%d: %q is retired: write %s", name, number, part, use))
			}
		}
	}
	return faults
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
