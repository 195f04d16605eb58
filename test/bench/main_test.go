package main

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The list has a line for each subject, each says how it is called, and the script run runs it.
func TestSubjects(t *testing.T) {
	var list bytes.Buffer
	require.NoError(t, run(nil, &list))
	lines := strings.Split(strings.TrimSpace(list.String()), "\n")
	require.Len(t, lines, len(subjects))
	script, err := os.ReadFile("run")
	require.NoError(t, err)
	for i, s := range subjects {
		require.Regexp(t, "^bench "+s.name+" +[^ ]", lines[i])
		require.ErrorContains(t, run([]string{s.name}, io.Discard), "usage: bench "+s.name+" ")
		require.Contains(t, string(script), "\n"+s.name+"() { # ")
	}
	require.EqualError(t, run([]string{"none"}, &list), `no such subject: "none"; bench alone lists them`)
}
