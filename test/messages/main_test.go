package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const example = `package p

import "some where"

// a comment is none
type t struct { F int ` + "`json:\"a b\"`" + ` }

var script = ` + "`one two\nthree`" + `

func f(name string) error {
	_ = "key"
	say.line("one " + "line of " + name + "!")
	if name == "two words" {
		return fmt.Errorf("no such file: %s",
			name)
	}
	return &Error{Hint: "try again"}
}
`

func TestFind(t *testing.T) {
	found, err := find("p.go", example)
	require.NoError(t, err)
	require.Equal(t, []message{
		{"p.go:13", "line", "one line of %s!"},
		{"p.go:14", "", "two words"},
		{"p.go:15", "Errorf", "no such file: %s"},
		{"p.go:18", "Error", "try again"},
	}, found)
	_, err = find("p.go", "package")
	require.Error(t, err)
}

// Rules for the texts of errors, which are wrapped and end up behind "ibrun: ".
var rules = map[string]*regexp.Regexp{
	"begins with a capital":   regexp.MustCompile(`^[A-Z][a-z]+ `),
	"ends with a full stop":   regexp.MustCompile(`[^.]\.$`),
	"ends with a line break":  regexp.MustCompile(`\n$`),
	"has two spaces in a row": regexp.MustCompile(`\S  \S`),
	"says sorry, please or !": regexp.MustCompile(`(?i)\b(sorry|please|oops)\b|[a-z]!`),
	"refers to an issue":      regexp.MustCompile(`(?i)\bissue \d`),
}

// names of types, functions, options and messages begin some texts, and keep their capitals.
var named = regexp.MustCompile(`^(Init|Put|Get|Recv|RecvFrom|Send|Finalize|CPUs?|LID|GID|MTU|HCA|PMI|MPI|Open MPI)\b`)

// broken names the rules that a text breaks.
func broken(m message) (which []string) {
	if m.call != "Errorf" && m.call != "New" && m.call != "usagef" {
		return nil
	}
	for name, rule := range rules {
		if rule.MatchString(m.text) && !(strings.Contains(name, "capital") && named.MatchString(m.text)) {
			which = append(which, name)
		}
	}
	slices.Sort(which)
	return which
}

func TestMessages(t *testing.T) {
	found, err := all("../..")
	require.NoError(t, err)
	require.Greater(t, len(found), 500)
	for _, m := range found {
		require.Empty(t, broken(m), "%s: %s", m.place, m.text)
	}
}

func TestBroken(t *testing.T) {
	for text, want := range map[string]string{
		"Cannot open %s":        "begins with a capital",
		"cannot open %s.":       "ends with a full stop",
		"cannot open %s\n":      "ends with a line break",
		"cannot  open %s":       "has two spaces in a row",
		"cannot open %s, sorry": "says sorry, please or !",
		"see issue 14 for it":   "refers to an issue",
	} {
		require.Equal(t, []string{want}, broken(message{call: "Errorf", text: text}))
	}
	require.Empty(t, broken(message{call: "Errorf", text: "Init was called before"}))
	require.Empty(t, broken(message{call: "Errorf", text: "invalid name %q: write one like a..."}))
	require.Empty(t, broken(message{call: "line", text: "A report."}))
}
