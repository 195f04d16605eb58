package safefile

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// writeScratch writes a file of one byte and makes its parent directories. It returns the path of the file.
func writeScratch(t *testing.T, path ...string) string {
	name := filepath.Join(path...)
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
	require.NoError(t, os.WriteFile(name, []byte("x"), 0o600))
	return name
}

func names(t *testing.T, dir string) (all []string) {
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func TestRemove(t *testing.T) {
	base, shared := t.TempDir(), t.TempDir()
	f, err := Make(base)
	require.NoError(t, err)
	writeScratch(t, f.Path(), "job/0/x")
	writeScratch(t, shared, "segment")
	writeScratch(t, shared, "early")
	writeScratch(t, shared, "tree/below/x")
	writeScratch(t, shared, "full/x")
	writeScratch(t, shared, "stays")
	early := File{Root: shared, Path: "early"}
	for _, file := range []File{
		early, {Root: shared, Path: "segment"}, {Root: shared, Path: "tree", Tree: true}, {Root: shared, Path: "full"},
	} {
		require.NoError(t, f.Register(file))
		require.NoError(t, f.Register(file), "twice is once")
	}
	f.Drop([]File{early})
	require.Equal(t, []string{"full", "segment", "stays", "tree"}, names(t, shared))
	Sweep(base)
	require.DirExists(t, f.Path(), "its maker lives")
	f.Remove()
	require.Empty(t, names(t, base))
	require.Equal(t, []string{"full", "stays"}, names(t, shared))
}

// What leads elsewhere, and what is not of this package, stays.
func TestRefusals(t *testing.T) {
	base, shared, other := t.TempDir(), t.TempDir(), t.TempDir()
	f, err := Make(base)
	require.NoError(t, err)
	for _, path := range []string{"../x", "/x", "", "a\nfile\t/\tx"} {
		require.Error(t, f.Register(File{Root: shared, Path: path}), path)
	}
	victim := writeScratch(t, other, "victim")
	require.NoError(t, os.Symlink(other, filepath.Join(shared, "link")))
	require.NoError(t, f.Register(File{Root: shared, Path: "link/victim"}))
	f.Remove()
	require.FileExists(t, victim)

	require.NoError(t, os.Mkdir(filepath.Join(base, "ibrun-scratch-mine"), 0o700))
	require.NoError(t, os.Symlink(other, filepath.Join(base, "ibrun-scratch-link")))
	writeScratch(t, other, listName)
	Sweep(base)
	require.Equal(t, []string{"ibrun-scratch-link", "ibrun-scratch-mine"}, names(t, base))
	require.FileExists(t, victim)
}

// A folder whose maker was killed is removed by whoever sweeps.
func TestSweep(t *testing.T) {
	base, shared := t.TempDir(), t.TempDir()
	f, err := Make(base)
	require.NoError(t, err)
	writeScratch(t, shared, "segment")
	writeScratch(t, f.Path(), "job/0/x")
	require.NoError(t, f.Register(File{Root: shared, Path: "segment"}))
	require.NoError(t, f.list.Close()) // as the kernel does
	Sweep(base)
	require.Empty(t, names(t, base))
	require.Empty(t, names(t, shared))
}
