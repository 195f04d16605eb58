package proc

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for _, size := range []int{0, 1, 511, 512, 513, 100_000} {
		text := strings.Repeat("x", size)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		for _, most := range []int{0, 1, 512, 1000, 1 << 20} {
			got, err := Read(path, most)
			require.NoError(t, err)
			require.Equal(t, text[:min(size, most)], string(got))
		}
	}
	_, err := Read(path+"s", 1)
	require.True(t, errors.Is(err, fs.ErrNotExist))
	_, err = Read(filepath.Dir(path), 1)
	require.ErrorContains(t, err, "read "+filepath.Dir(path)+": is a directory")
	long, err := Read("/proc/self/smaps", 1<<20) // more than a page, and made as it is read
	require.NoError(t, err)
	require.Greater(t, len(long), 4096)
}
