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

// TestGeneratedFilesAreUpToDate requires that the generated files on disk are equal to those that wiregen generates
// now, and that no other generated file is on disk.
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

// TestInvalidSchemasAreRefused requires an error that contains the expected text for each schema.
func TestInvalidSchemasAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"message 3x A up {\n}": "invalid number",
		"message 0 A up {\n}":  "invalid number",
		"message A up {\n}":    "invalid declaration",
		"message 1 A up {\n}\npackage wire\nmessage 1 B up {\n}": "A and B have the number 1",
		"message 1 A left {\n}":                                  `no sender "left"`,
		"type A {\nX uint32 most 3\n}":                           `invalid limit "most"`,
		"type A {\nX uint32 cut\n}":                              `invalid limit "cut"`,
		"type A {\nX uint33\n}":                                  "m.X has no type uint33",
		"type A {\nX []other\n}":                                 "m.X[i] has no type other",
		"type A {\nX uint32 as u7\n}":                            "no form u7",
		"list A other":                                           "m has no type other",
		"enum A {\nX\n}":                                         "invalid value of A",
		"table A {\n}":                                           `invalid declaration of "table"`,
	} {
		s, err := parse("package rankwire\n" + text)
		if err == nil {
			_, err = s.code()
		}
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
	Words Words ..3 // of the user
	To    uint32 as u+1
	must m.N > 2 || m.To == 0
	check verify
}`)
	require.NoError(t, err)
	files, err := s.code()
	require.NoError(t, err)
	code := string(files["bootstrap/wire/rankwire/sample_gen.go"])
	for _, line := range []string{
		"r.Must(m.N >= 1)", "r.Must(m.N <= 5)", "r.Must(m.Color >= Red)", "r.Must(m.Color <= Green)",
		"r.Must(m.Level <= other.Levels-1)", "r.Must(len(m.Word) >= 1)", "r.Must(len(m.Word) <= MaxWord)",
		"r.Must(len(m.Cut) <= MaxWord)", "w.Text(m.Cut[:min(len(m.Cut), MaxWord)])", "r.Must(len(m.Data) <= MaxWord)",
		"r.Must(len(m.List) >= 2)", "r.Must(m.Words.Len() <= 3)", "m.To = r.Next()", "r.Must(m.N > 2 || m.To == 0)",
		"r.Fail(m.verify())", "r.Must(len(m) <= MaxWord)",
	} {
		require.Contains(t, code, line)
	}
	require.Contains(t, code, "Words Words // of the user")
	kinds := string(files["bootstrap/wire/rankwire/kinds_gen.go"])
	require.Contains(t, kinds, "From: frame.Rank, Parse: ParseSample, Once: true")
	tables := execute("tables", s)
	require.Contains(t, tables, "| 7 | Sample | from a rank | "+
		"N:u Color:Color Level:b Word:s Cut:s Data:s List:u16* Words:s* To:u+1 |")
	require.Contains(t, tables, "N: 1..5; Word: 1..MaxWord; Cut: cut MaxWord; Data: ..MaxWord; List: 2..; "+
		"Words: ..3; To: as u+1; `N > 2 \\|\\| To == 0`; method verify")
	require.Equal(t, 1, strings.Count(tables, "| MaxWord | `9` | bytes |"))
}
