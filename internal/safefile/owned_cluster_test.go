//go:build cluster

package safefile

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/test/skip"
)

// stranger is another user of the machine: nobody.
const stranger = 65534

// tmp is a directory like /tmp: everybody can put something in.
func tmp(t *testing.T) string {
	if os.Geteuid() != 0 {
		skip.Because(t, "only root can make files of another user")
	}
	dir := filepath.Join(t.TempDir(), "tmp")
	require.NoError(t, os.Mkdir(dir, 0o777))
	require.NoError(t, os.Chmod(dir, 0o777|os.ModeSticky))
	return dir
}

// victims is a directory of ours with a file in it, which is to stay.
func victims(t *testing.T) (dir, file string) {
	dir = filepath.Join(t.TempDir(), "home")
	file = filepath.Join(dir, "thesis")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.NoError(t, os.WriteFile(file, []byte("ten years"), 0o644))
	t.Cleanup(func() {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, "ten years", string(text))
	})
	return dir, file
}

func theirs(t *testing.T, paths ...string) {
	for _, p := range paths {
		require.NoError(t, os.Lchown(p, stranger, stranger))
	}
}

func TestDir(t *testing.T) {
	at := tmp(t)
	home, file := victims(t)
	for _, p := range []string{"mine/below", "theirs/below", "swapped/home"} {
		require.NoError(t, os.MkdirAll(filepath.Join(at, p), 0o755))
	}
	require.NoError(t, os.Symlink(home, filepath.Join(at, "link")))
	require.NoError(t, os.Symlink("mine", filepath.Join(at, "inside")))
	require.NoError(t, os.Symlink(home, filepath.Join(at, "mine/below/link")))
	require.NoError(t, os.Symlink(file, filepath.Join(at, "mine/link")))
	theirs(t, filepath.Join(at, "theirs"), filepath.Join(at, "theirs/below"))

	d, err := Open(at)
	require.NoError(t, err)
	defer d.Close()
	for name, why := range map[string]string{
		"link": "path escapes", "inside": "is a link", "theirs": "belongs to user 65534", "none": "no such file",
		"mine/below": "is not the name of one entry", "..": "is not", "": "is not", ".": "is not",
	} {
		_, err := d.Dir(name)
		require.ErrorContains(t, err, why, "%q", name)
		if name != "link" && name != "inside" { // these are ours, and go without what they lead to
			require.Error(t, d.Remove(name), "%q", name)
			require.Error(t, d.RemoveAll(name), "%q", name)
		}
	}
	mine, err := d.Dir("mine")
	require.NoError(t, err)
	defer mine.Close()
	require.NoError(t, mine.Remove("link"))
	require.ErrorIs(t, mine.Remove("below"), syscall.ENOTEMPTY)
	require.NoError(t, mine.RemoveAll("below"))
	require.NoError(t, d.RemoveAll("link"))
	require.NoError(t, d.Remove("inside"))
	require.DirExists(t, filepath.Join(at, "mine"))
	require.DirExists(t, filepath.Join(at, "theirs/below"))

	// A name that changes after it was opened leads nowhere else.
	below, err := d.Dir("swapped")
	require.NoError(t, err)
	defer below.Close()
	require.NoError(t, os.Rename(filepath.Join(at, "swapped"), filepath.Join(at, "aside")))
	require.NoError(t, os.Symlink(filepath.Dir(home), filepath.Join(at, "swapped")))
	require.NoError(t, below.RemoveAll("home"))
	require.NoDirExists(t, filepath.Join(at, "aside/home"))
}

func writeFile(t *testing.T, path string) error {
	f, err := Replace(path)
	if err != nil {
		return err
	}
	_, err = f.WriteString("out")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "out", string(text))
	return nil
}

func TestReplace(t *testing.T) {
	at := tmp(t)
	home, file := victims(t)
	folder := filepath.Join(at, "folder")
	require.NoError(t, os.Mkdir(folder, 0o755))
	own := filepath.Join(home, "own")
	require.NoError(t, os.WriteFile(own, []byte("longer than out"), 0o600))
	for link, to := range map[string]string{
		"good": own, "relative": "folder/new", "dangling": filepath.Join(folder, "dangled"), "twice": "good",
		"way":  "folder/../folder",
		"evil": file, "evilway": home, "loop": "loop", "evilvia": "evil",
	} {
		require.NoError(t, os.Symlink(to, filepath.Join(at, link)))
	}
	require.NoError(t, os.WriteFile(filepath.Join(at, "planted"), nil, 0o666))
	require.NoError(t, os.Link(file, filepath.Join(at, "second")))
	theirs(t, filepath.Join(at, "evil"), filepath.Join(at, "evilway"), filepath.Join(at, "planted"))

	for _, name := range []string{"new", "new", "good", "relative", "dangling", "twice", "way/other",
		"way/../folder/third"} {
		require.NoError(t, writeFile(t, filepath.Join(at, name)), name)
	}
	i, err := os.Stat(own)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), i.Mode(), "an existing file keeps its mode")
	for name, why := range map[string]string{
		"evil": "is a link that belongs to user 65534", "evilvia": "evil is a link that belongs to user 65534",
		"evilway/thesis": "is a link that belongs to user 65534",
		"planted":        "it belongs to user 65534, and everybody can put files into",
		"second":         "it has a second name", "loop": "too many levels", "folder": "is a directory",
		"none/file": "no such file",
	} {
		err := writeFile(t, filepath.Join(at, name))
		require.ErrorContains(t, err, why, name)
	}

	// Who names somebody's own folder trusts that somebody, as on a group's disk.
	theirs(t, folder, filepath.Join(folder, "new"))
	require.NoError(t, os.Symlink(own, filepath.Join(folder, "way")))
	theirs(t, filepath.Join(folder, "way"))
	require.NoError(t, writeFile(t, filepath.Join(folder, "new")))
	require.NoError(t, writeFile(t, filepath.Join(folder, "way")))
}

// What is no file is opened as it is.
func TestReplaceDevices(t *testing.T) {
	t.Chdir(tmp(t))
	require.NoError(t, writeFile(t, "here"), "a path that does not begin at the root")
	for _, path := range []string{"/dev/null", "/dev/stdout", "/proc/self/fd/1"} {
		f, err := Replace(path)
		require.NoError(t, err, path)
		require.NoError(t, f.Close())
	}
	require.NoError(t, syscall.Mkfifo("pipe", 0o600))
	r, err := os.OpenFile("pipe", os.O_RDONLY|syscall.O_NONBLOCK, 0)
	require.NoError(t, err)
	f, err := Replace("pipe")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.NoError(t, r.Close())
	theirs(t, "pipe") // without a reader, opening it would wait
	_, err = Replace("pipe")
	require.ErrorContains(t, err, "belongs to user")
}
