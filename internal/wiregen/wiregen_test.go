package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// root is the path of the root of the repository, relative to the folder of this test.
const root = "../.."

// TestGeneratedFilesAreUpToDate requires that the generated files on disk are those that wiregen generates now. There
// must be no generated file besides them.
func TestGeneratedFilesAreUpToDate(t *testing.T) {
	files, err := generate(root)
	require.NoError(t, err)
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(root, name))
		require.NoError(t, err)
		require.Equal(t, string(want), string(got), "%s is out of date: run go generate ./bootstrap/wire", name)
	}
	for _, folder := range folders {
		found, err := filepath.Glob(filepath.Join(root, folder, "*_gen*.go"))
		require.NoError(t, err)
		for _, name := range found {
			require.Contains(t, files, folder+"/"+filepath.Base(name), "the schema does not generate this file any more")
		}
	}
}

// TestParseRefusesInvalidSchemas requires that parse returns an error that contains the expected text for each schema.
func TestParseRefusesInvalidSchemas(t *testing.T) {
	for text, want := range map[string]string{
		"message 300 A up {\n}":                    "invalid number",
		"message A up {\n}":                        "invalid declaration",
		"message 1 A left {\n}":                    `no sender "left"`,
		"message 1 A up {\n}\nmessage 1 B up {\n}": "A and B have the number 1",
		"message 1 A up {\n}\nmessage 2 A up {\n}": "p.A is declared twice",
		"type A {\nX uint32 most 3\n}":             `invalid limit "most"`,
		"type A {\nX uint32 cut\n}":                `invalid limit "cut"`,
		"type A {\nX uint33\n}":                    "A: no type uint33",
		"type A {\nX []other\n}":                   "A: no type []other",
		"type A {\nX uint32 as u7\n}":              "A: no form u7",
		"list A other":                             "A: no type other",
		"enum A {\nX\n}":                           "invalid value of A",
		"table A {\n}":                             `invalid declaration of "table"`,
		"type A {\nX uint32":                       "A has no end",
	} {
		_, err := parse("package p\n" + text)
		require.ErrorContains(t, err, want, text)
	}
}

// TestLimitsAreGenerated requires that the limits and conditions of a schema appear in the generated decoders and in
// the generated tables of docs/dev/protocol.md.
func TestLimitsAreGenerated(t *testing.T) {
	s, err := parse(`
package rankwire
const MaxWord = 9 // bytes
file sample

enum Color {
	1 Red
	2 Green
}
list Words string ..MaxWord
scalar other.Level uint8 ..other.Levels-1
message 7 Sample rank once {
	N     uint32 1..5
	Color Color
	Level other.Level
	Word  string 1..MaxWord
	Cut   string cut MaxWord
	Data  []byte ..MaxWord
	List  []uint16 2..
	Words Words ..3 size 20 // of the user
	To    uint32 as u+1
	must m.N > 2 || m.To == 0
	check verify
}`)
	require.NoError(t, err)
	files, err := s.code()
	require.NoError(t, err)
	code := string(files["bootstrap/wire/rankwire/sample_gen.go"])
	for _, line := range []string{
		"frame.Within(r, m.N, 1, 5)", "frame.Within(r, m.Color, Red, Green)", "frame.Within(r, m.Level, 0, other.Levels-1)",
		"m.Word = r.TextUpTo(MaxWord)", "frame.Within(r, len(m.Word), 1, MaxWord)", "m.Cut = r.TextUpTo(MaxWord)",
		"w.Text(m.Cut[:min(len(m.Cut), MaxWord)])", "m.Data = r.Bytes(MaxWord)",
		"frame.Within(r, len(m.List), 2, math.MaxInt32)", "frame.Within(r, m.Words.Len(), 0, 3)",
		"frame.Within(r, m.Words.Size(), 0, 20)", "m.To = r.Next()", "r.Must(m.N > 2 || m.To == 0)", "m.verify()",
	} {
		require.Contains(t, code, line)
	}
	require.Contains(t, code, "Words Words // of the user")
	kinds := string(files["bootstrap/wire/rankwire/kinds_gen.go"])
	require.Contains(t, kinds, "From: frame.Rank, Parse: parseSample, Once: true")
	tables := s.tables()
	require.Contains(t, tables, "| 7 | Sample | from a rank | "+
		"N:u Color:Color Level:b Word:s Cut:s Data:s List:u16* Words:s* To:u+1 |")
	require.Contains(t, tables, "N: 1..5; Word: 1..MaxWord; Cut: cut after MaxWord bytes; Data: ..MaxWord; List: 2..; "+
		`Words: ..3; Words: at most 20 bytes; `+"`N > 2 \\|\\| To == 0`; method verify")
	require.Equal(t, 1, strings.Count(tables, "| MaxWord | `9` | bytes |"))
}
