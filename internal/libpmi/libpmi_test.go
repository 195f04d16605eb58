package libpmi

import (
	"errors"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// A file without a name, in memory or in a folder, is found by another process
// as long as it is open, and may be executed.
func TestUnnamedFiles(t *testing.T) {
	image := []byte("the library")
	dir := t.TempDir()
	memory, err := inMemory(image)
	require.NoError(t, err)
	folder, err := unnamed(image, dir)
	require.NoError(t, err)
	for _, f := range []*os.File{memory, folder} {
		out, err := exec.Command("cat", Path(f)).Output()
		require.NoError(t, err)
		require.Equal(t, image, out)
		path := Path(f)
		require.NoError(t, f.Close())
		require.NoFileExists(t, path)
	}
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
	_, err = unnamed(image, dir+"/missing")
	require.ErrorContains(t, err, dir+"/missing")
}

// What this binary was built with can be opened; a build without says so.
func TestOpen(t *testing.T) {
	f, err := Open()
	if Image() == nil {
		require.True(t, errors.Is(err, ErrNone))
		return
	}
	require.NoError(t, err)
	defer f.Close()
	b, err := os.ReadFile(Path(f))
	require.NoError(t, err)
	require.Equal(t, Image(), b)
}
