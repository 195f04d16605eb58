package hwloctest

import (
	"archive/tar"
	"compress/bzip2"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/topo"
	"ibrun/topo/capture"
)

// Variable names the folder of captured machines: NAME.tar.bz2 with one folder
// inside, which holds sys/ and proc/. A relative path is from the root of the
// module, not from the package under test.
const Variable = "IBRUN_CAPTURES"

// suffix is that of captures in the folder, plainSuffix that of our own.
const (
	suffix      = ".tar.bz2"
	plainSuffix = ".tar"
)

// Tars are the captures as they are kept: those of our own, and those of the folder that
// Variable names, which must have some.
func Tars(t testing.TB) []string {
	t.Helper()
	tars := madeTars(t)
	from := os.Getenv(Variable)
	if from == "" {
		return tars
	}
	if !filepath.IsAbs(from) {
		from = filepath.Join(moduleRoot(t), from)
	}
	real, err := filepath.Glob(filepath.Join(from, "*"+suffix))
	require.NoError(t, err)
	require.NotEmpty(t, real, "%s=%s has no captures", Variable, from)
	return append(tars, real...)
}

// Name is the name of a capture.
func Name(tar string) string {
	return strings.TrimSuffix(strings.TrimSuffix(filepath.Base(tar), suffix), plainSuffix)
}

// content returns a reader of the tar archive that f contains. It decompresses the archive if its file name, tar, ends
// in .tar.bz2.
func content(tar string, f io.Reader) io.Reader {
	if strings.HasSuffix(tar, suffix) {
		return bzip2.NewReader(f)
	}
	return f
}

// Machines are the machines of all Tars by name, read without unpacking.
func Machines(t testing.TB) map[string]*topo.Machine {
	t.Helper()
	machines := map[string]*topo.Machine{}
	for _, path := range Tars(t) {
		fsys, err := capture.Open(path)
		require.NoError(t, err)
		machines[Name(path)] = topo.Read(fsys)
	}
	return machines
}

// Captures unpacks all Tars below t's own folder and returns, for the name of
// each, the folder that holds its sys/ and proc/.
func Captures(t testing.TB) map[string]string {
	t.Helper()
	captures := map[string]string{}
	for _, path := range Tars(t) {
		name := Name(path)
		to := filepath.Join(t.TempDir(), name)
		unpack(t, path, to)
		inside, err := filepath.Glob(filepath.Join(to, "*", "sys"))
		require.NoError(t, err)
		if inside == nil {
			inside = []string{filepath.Join(to, "sys")}
		}
		require.Len(t, inside, 1, "%s: sys/, or one folder with it, is wanted", path)
		captures[name] = filepath.Dir(inside[0])
	}
	return captures
}

// moduleRoot is the folder of go.mod.
func moduleRoot(t testing.TB) string {
	dir, err := os.Getwd()
	require.NoError(t, err)
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		require.NotEqual(t, dir, filepath.Dir(dir), "no go.mod above the working directory")
		dir = filepath.Dir(dir)
	}
}

// unpack writes what a tarball holds below a folder. Modes are not kept: sysfs
// has files that nobody may read, and the folders must go away afterwards.
func unpack(t testing.TB, path, to string) {
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	for in := tar.NewReader(content(path, f)); ; {
		head, err := in.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err, path)
		require.True(t, filepath.IsLocal(head.Name), "%s holds %q", path, head.Name)
		name := filepath.Join(to, head.Name)
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		switch head.Typeflag {
		case tar.TypeDir:
			err = os.MkdirAll(name, 0o755)
		case tar.TypeSymlink:
			err = os.Symlink(head.Linkname, name)
		case tar.TypeLink:
			err = os.Link(filepath.Join(to, head.Linkname), name)
		case tar.TypeReg:
			var b []byte
			b, err = io.ReadAll(in)
			require.NoError(t, err, path)
			err = os.WriteFile(name, b, 0o644)
		default:
			t.Fatalf("%s: %s is of type %c", path, head.Name, head.Typeflag)
		}
		require.NoError(t, err)
	}
}
