package main

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The list has a line for each subject, each says how it is called, and make runs it.
func TestSubjects(t *testing.T) {
	var list bytes.Buffer
	require.NoError(t, run(nil, &list))
	lines := strings.Split(strings.TrimSpace(list.String()), "\n")
	require.Len(t, lines, len(subjects))
	makefile, err := os.ReadFile("../../Makefile")
	require.NoError(t, err)
	for i, s := range subjects {
		require.Regexp(t, "^bench "+s.name+" +[^ ]", lines[i])
		require.ErrorContains(t, run([]string{s.name}, io.Discard), "usage: bench "+s.name+" ")
		require.Contains(t, string(makefile), "\nbench-"+s.name+": ")
		require.Contains(t, string(makefile), " "+s.name+" ", "bench-%s runs it", s.name)
	}
	require.EqualError(t, run([]string{"none"}, &list), `no such subject: "none"; bench alone lists them`)
}
