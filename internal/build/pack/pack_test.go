package pack

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/build"
	"ibrun/internal/executable"
	"ibrun/internal/skip"
)

// What is kept is taken again as long as it is this program's, and made anew if it is another's or
// damaged.
func TestKept(t *testing.T) {
	dir := t.TempDir()
	path, kept := filepath.Join(dir, "ibrun"), filepath.Join(dir, "kept")
	content := func(file string) []byte {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		return text
	}
	into := func(program string, level int) {
		require.NoError(t, executable.Write(path, bytes.Repeat([]byte(program), 1000)))
		err := Into(path, kept, level)
		if err == ErrNone {
			skip.Because(t, err.Error())
		}
		require.NoError(t, err)
		text, err := build.Program(path)
		require.NoError(t, err)
		require.Equal(t, bytes.Repeat([]byte(program), 1000), text)
		require.True(t, bytes.Contains(content(path), content(kept)))
		require.True(t, unpacksTo(content(kept), text))
	}
	into("one", Best)
	first := content(kept)
	into("one", Quick)
	require.Equal(t, first, content(kept))
	into("another", Quick)
	require.NotEqual(t, first, content(kept))
	require.NoError(t, os.WriteFile(kept, first[:len(first)/2], 0o644))
	into("one", Best)
	require.Equal(t, first, content(kept))

	t.Setenv("PATH", dir)
	before := content(path)
	require.Equal(t, ErrNone, Into(path, kept, Best))
	require.Equal(t, before, content(path))
	require.Error(t, Into(kept+"/nothing", kept, Best))
}
