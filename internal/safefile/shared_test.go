package safefile

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A file that a process has open or mapped stays, as does what is not UCX's.
func TestUnused(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"opened", "mapped", "garbage"} {
		writeScratch(t, dir, uncertain+name)
	}
	writeScratch(t, dir, "other")
	writeScratch(t, dir, uncertain+"folder", "x")
	require.NoError(t, os.Symlink(filepath.Join(dir, "other"), filepath.Join(dir, uncertain+"link")))
	opened, err := os.Open(filepath.Join(dir, uncertain+"opened"))
	require.NoError(t, err)
	file, err := os.OpenFile(filepath.Join(dir, uncertain+"mapped"), os.O_RDWR, 0)
	require.NoError(t, err)
	mapped, err := unix.Mmap(int(file.Fd()), 0, 1, unix.PROT_READ, unix.MAP_SHARED)
	require.NoError(t, err)
	require.NoError(t, file.Close())
	stays := []string{"other", uncertain + "folder", uncertain + "link"}

	Unused(dir)
	require.ElementsMatch(t, append(stays, uncertain+"opened", uncertain+"mapped"), names(t, dir))
	require.NoError(t, opened.Close())
	require.NoError(t, unix.Munmap(mapped))
	Unused(dir)
	require.ElementsMatch(t, stays, names(t, dir))
	Unused(filepath.Join(dir, "none"))
}
