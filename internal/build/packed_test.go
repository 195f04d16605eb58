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

// TestPack packs a program twice. The file must hold the program and the packed form of the second call.
func TestPack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ibrun")
	program := bytes.Repeat([]byte("program"), 1000)
	require.NoError(t, executable.Write(path, program))
	for _, zstd := range []string{"what zstd makes of it", "the same by another zstd"} {
		require.NoError(t, Pack(path, []byte(zstd)))
		f, err := os.Open(path)
		require.NoError(t, err)
		p, err := partsOf(f)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		require.Equal(t, parts{int64(len(program)), int64(len(program)), int64(len(zstd)) + frameSize}, p)
		all, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, zstd, string(all[p.packed:][:len(zstd)]))
		again, err := Program(path)
		require.NoError(t, err)
		require.Equal(t, program, again)
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
