package build

import (
	"bytes"
	"debug/elf"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/executable"
)

// The build id that is found in the beginning of a file is the one that package debug/elf finds.
func TestBuildNote(t *testing.T) {
	f, err := elf.Open(self)
	require.NoError(t, err)
	defer f.Close()
	want, err := f.Section(".note.go.buildid").Data()
	require.NoError(t, err)
	head, err := os.ReadFile(self)
	require.NoError(t, err)
	require.Equal(t, string(bytes.TrimRight(want[16:], "\x00")), string(buildNote(head[:headSize])))
	empty := append(make([]byte, 8), noteMark...)
	for _, head := range [][]byte{nil, noteMark, bytes.Repeat([]byte{0}, 100), head[:64], empty} {
		require.Nil(t, buildNote(head))
	}
}

// A leaf lies behind the program, where it can be mapped, and what is sent to nodes is the program
// alone. Another one takes its place.
func TestJoin(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ibrun")
	program := bytes.Repeat([]byte("program"), 1000)
	require.NoError(t, executable.Write(path, program))
	leaf, err := os.ReadFile(self)
	require.NoError(t, err)
	const at = 2 * page
	for range 2 {
		require.NoError(t, Join(path, self))
		all, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, at+len(leaf)+int(endSize), len(all))
		require.True(t, bytes.Equal(leaf, all[at:at+len(leaf)]))
		sent, err := Program(path)
		require.NoError(t, err)
		require.Len(t, sent, at)
		require.True(t, bytes.HasPrefix(sent, program))
	}
	short, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer short.Close()
	require.Zero(t, leafAt(short))
	require.Error(t, Join(path+"/nothing", self))
}
