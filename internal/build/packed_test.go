package build

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/executable"
)

// A packed form lies before the end that says where the leaf is, or at the end of an ibrun without
// one. Another takes its place, and a leaf that is joined anew drops it.
func TestPack(t *testing.T) {
	for name, leaf := range map[string]bool{"with a leaf": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "ibrun")
			program := bytes.Repeat([]byte("program"), 1000)
			require.NoError(t, executable.Write(path, program))
			if leaf {
				require.NoError(t, Join(path, self))
			}
			plain, err := os.ReadFile(path)
			require.NoError(t, err)
			text, err := Program(path)
			require.NoError(t, err)
			require.True(t, bytes.HasPrefix(text, program))
			for _, zstd := range []string{"what zstd makes of it", "the same by another zstd"} {
				require.NoError(t, Pack(path, []byte(zstd)))
				f, err := os.Open(path)
				require.NoError(t, err)
				p, err := partsOf(f)
				require.NoError(t, err)
				require.Equal(t, int64(len(zstd))+frameSize, p.packedSize)
				all, err := os.ReadFile(path)
				require.NoError(t, err)
				require.Equal(t, zstd, string(all[p.packed:][:len(zstd)]))
				require.Equal(t, leaf, leafAt(f) > 0)
				again, err := Program(path)
				require.NoError(t, err)
				require.Equal(t, text, again)
				require.NoError(t, f.Close())
			}
			if leaf {
				require.NoError(t, Join(path, self))
				all, err := os.ReadFile(path)
				require.NoError(t, err)
				require.True(t, bytes.Equal(plain, all))
			}
		})
	}
	require.Error(t, Pack(filepath.Join(t.TempDir(), "nothing"), nil))
}

// Sizes that cannot be are those of a file that ends so by chance.
func TestPackedSizes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ibrun")
	for sizes, found := range map[[2]uint64]bool{{9, 32}: true, {8, 33}: true, {0, 0}: false, {9, 31}: false,
		{0, 1 << 63}: false, {1 << 63, 32}: false, {7, 42}: false, {8, 41}: false, {1<<64 - 1, 1<<64 - 1}: false} {
		text := append([]byte("program.."), append(bytes.Clone(skippable), packMark...)...)
		text = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(text, sizes[0]), sizes[1])
		require.NoError(t, executable.Write(path, text))
		f, err := os.Open(path)
		require.NoError(t, err)
		p, err := partsOf(f)
		require.NoError(t, f.Close())
		require.NoError(t, err)
		want := parts{program: int64(len(text))}
		if found {
			want = parts{int64(sizes[0]), int64(len(text)) - int64(sizes[1]), int64(sizes[1])}
		}
		require.Equal(t, want, p, sizes)
	}
}
