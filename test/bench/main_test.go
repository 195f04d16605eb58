package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSubcommandsAreListedAndRun requires that each subcommand fails without arguments. Each subcommand without a
// leading colon in its name must also be listed with its arguments, and be started by the script test/bench/run.
func TestSubcommandsAreListedAndRun(t *testing.T) {
	var list bytes.Buffer
	require.NoError(t, run(nil, &list))
	script, err := os.ReadFile("run")
	require.NoError(t, err)
	for _, c := range commands {
		require.ErrorContains(t, run([]string{c.name}, io.Discard), "arguments are too few", c.name)
		if !strings.HasPrefix(c.name, ":") {
			require.Contains(t, list.String(), "bench "+c.name+" "+c.args+"\n")
			require.Regexp(t, `(bench|bin/bench|bench-all|on \S+) `+c.name+` `, string(script))
		}
	}
	require.EqualError(t, run([]string{"none"}, &list), `no such subcommand: "none"; bench alone lists them`)
}

// TestAllKeepsFiguresOnAPage calls runAll twice with the same document. The table must list missed bounds first, show
// the values of the previous run, and keep the rows of targets that the second call does not run.
func TestAllKeepsFiguresOnAPage(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	outputs := map[string]string{
		"bench-a": "one: 1.00 (bound: at most 1.20): met\ntwo: 0.50 (bound: at least 1.00): MISSED\n",
		"bench-b": "three: 2.00 (bound: at least 1.00): met\n",
	}
	measure := func(name string) ([]byte, error) {
		if text := outputs[name]; text != "" && !strings.Contains(text, "MISSED") {
			return []byte(text), nil
		}
		return []byte(outputs[name]), errors.New("exit status 2")
	}
	rows := func() string {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		_, after, _ := strings.Cut(string(text), tableHead)
		return after
	}
	var said strings.Builder
	err := runAll(page, []string{"bench-b", "bench-a", "bench-c"}, measure, &said)
	require.EqualError(t, err, "bench-a: 1 of 2 bounds missed\nbench-c: exit status 2")
	require.Equal(t, "| bench-a | two | 0.50 |  | at least 1.00 | **missed** |\n"+
		"| bench-c | exit status 2 |  |  |  | failed |\n"+
		"| bench-b | three | 2.00 |  | at least 1.00 | hit |\n"+
		"| bench-a | one | 1.00 |  | at most 1.20 | hit |\n<!-- end of make bench-all -->\n", rows())
	require.Empty(t, said.String())

	outputs["bench-a"] = "one: 1.14 (bound: at most 1.20): met\ntwo: 1.50 (bound: at least 1.00): met\n"
	require.NoError(t, runAll(page, []string{"bench-a"}, measure, &said))
	require.Equal(t, "bench-a: two: 1.50, was 0.50\n", said.String())
	require.Equal(t, "| bench-c | exit status 2 |  |  |  | failed |\n"+
		"| bench-a | one | 1.14 | 1.00 | at most 1.20 | hit |\n"+
		"| bench-a | two | 1.50 | 0.50 | at least 1.00 | hit |\n"+
		"| bench-b | three | 2.00 |  | at least 1.00 | hit |\n<!-- end of make bench-all -->\n", rows())
}
