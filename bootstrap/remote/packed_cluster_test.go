//go:build cluster

package remote

import (
	"compress/gzip"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ibrun/internal/build"
	"ibrun/test/executable"
	"ibrun/test/waitfor"
)

// useCache sets the user's cache directory to an empty folder for the test. It returns the path of ibrun's folder in
// it.
func useCache(t *testing.T) string {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	return cacheDir()
}

// TestCompressedBinaryIsCached requires that the compressed binary is written to the cache. openPacked must refuse the
// cached file if it is incomplete, a symbolic link, or writable by other users.
func TestCompressedBinaryIsCached(t *testing.T) {
	dir := useCache(t)
	path := filepath.Join(dir, cachedName()+packedSuffix)
	f, err := newPacked(dir)
	require.NoError(t, err)
	require.Equal(t, content(t, build.Path()), unpacked(t, f))
	require.Equal(t, []string{cachedName() + packedSuffix}, names(t, dir))
	own, err := openPacked(path)
	require.NoError(t, err)
	require.NoError(t, own.Close())
	require.NoError(t, os.Chmod(path, 0o620))
	_, err = openPacked(path)
	require.ErrorIs(t, err, os.ErrPermission)
	require.NoError(t, os.Chmod(path, 0o600))
	require.NoError(t, os.Symlink(path, path+"-link"))
	_, err = openPacked(path + "-link")
	require.ErrorIs(t, err, unix.ELOOP)
	for _, size := range []int64{1_000_000, 4, 0} {
		require.NoError(t, os.Truncate(path, size))
		_, err = openPacked(path)
		require.Error(t, err, "%d bytes are left", size)
	}

	// If the cache cannot be written, the compressed binary is in memory.
	f, err = newPacked("/dev/null/ibrun")
	require.NoError(t, err)
	require.Equal(t, content(t, build.Path()), unpacked(t, f))
}

func unpacked(t *testing.T, f *os.File) []byte {
	p, err := sized(f)
	require.NoError(t, err)
	zip, err := gzip.NewReader(p)
	require.NoError(t, err)
	text, err := io.ReadAll(zip)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	return text
}

// TestCompressedBinaryIsSent launches on nodes with and without a working gzip. A node with gzip must be sent the
// compressed binary, and keep it for its own children. A node whose gzip is missing or fails must be sent the plain
// binary. A node whose gzip produces other bytes must report that the binary arrived damaged.
func TestCompressedBinaryIsSent(t *testing.T) {
	useCache(t)
	p, err := packed()
	require.NoError(t, err)
	size, _, err := build.Sum()
	require.NoError(t, err)
	require.Less(t, p.Size(), size*6/10)

	n := newNode(t, "/bin/sh", "", waitfor.Deadline)
	require.Equal(t, shipped, n.launch(t))
	require.Equal(t, found, n.launch(t))
	require.Empty(t, left(t, n.cache()))
	require.Equal(t, content(t, build.Path()), content(t, n.cached()))
	sent, err := os.Open(n.cached() + packedSuffix)
	require.NoError(t, err)
	require.Equal(t, content(t, build.Path()), unpacked(t, sent))

	// Nodes with the tools that the script needs, and with no gzip or one that fails.
	tools := t.TempDir()
	for _, name := range []string{"sh", "stat", "head", "uname", "timeout", "mktemp", "chmod", "mkdir", "rm", "mv",
		"cat", "sed", "sha256sum", "true", "rmdir"} {
		at, err := exec.LookPath(name)
		require.NoError(t, err)
		require.NoError(t, os.Symlink(at, filepath.Join(tools, name)))
	}
	for _, broken := range []string{"", "#!/bin/sh\necho no >&2; exit 1\n", "#!/bin/sh\nexit 0\n", "no program"} {
		if broken != "" {
			require.NoError(t, executable.Write(filepath.Join(tools, "gzip"), []byte(broken)))
		}
		bare := newNode(t, "/bin/sh", "PATH="+tools, waitfor.Deadline)
		require.Equal(t, shipped, bare.launch(t), broken)
		require.Len(t, content(t, bare.cached()), int(size), broken)
		require.NoFileExists(t, bare.cached()+packedSuffix, broken)
		require.Equal(t, found, bare.launch(t), broken)
		require.Empty(t, left(t, bare.cache()))
	}

	// A node whose gzip passes the check of the script but does not decompress.
	wrong := "#!/bin/sh\ncase $* in *d*) echo x;; *) cat;; esac\n"
	require.NoError(t, executable.Write(filepath.Join(tools, "gzip"), []byte(wrong)))
	other := newNode(t, "/bin/sh", "PATH="+tools, waitfor.Deadline)
	_, err = other.starter.Start(t.Context(), Target{Host: "h", other: true}, func(Phase) {})
	require.ErrorContains(t, err, "arrived damaged or in part")
	require.NoFileExists(t, other.cached())
	// The shell removes its files only after it has reported the error.
	gone := func() bool { return len(left(t, other.cache())) == 0 }
	waitfor.Require(t, "the shell has removed its files", gone)
}
