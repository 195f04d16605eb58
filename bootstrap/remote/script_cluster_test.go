//go:build cluster

package remote

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/reaper"
	"ibrun/internal/build"
	"ibrun/internal/job"
	"ibrun/test/executable"
	"ibrun/test/skip"
	"ibrun/test/waitfor"
)

// stranger is the number of a user who is nobody here.
const stranger = 64321

// place is a folder in one of root's, below which a test may have anybody's files.
func place(t *testing.T, in string) string {
	if os.Geteuid() != 0 {
		skip.Because(t, "needs root: files of several users")
	}
	dir, err := os.MkdirTemp(in, "ibrun-test")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755))
	return dir
}

// A file is run where the parent's lies only if nobody but root and the user
// can have put it there.
func TestOthersFilesAreNotRun(t *testing.T) {
	// Files and folders from the top to the file: owner (root, me, other), mode.
	for _, c := range []struct {
		name string
		path string
		runs bool
	}{
		{"all is root's", "root 755/root 755/root 755", true},
		{"all is mine", "me 755/me 700/me 700", true},
		{"mine in root's", "root 755/me 755/me 755", true},
		{"a setgid folder", "root 2755/me 2750/me 755", true},
		{"another's file", "root 755/me 755/other 755", false},
		{"another's folder", "root 755/other 755/me 755", false},
		{"another's folder further up", "other 755/root 755/root 755", false},
		{"a file that the group may write", "root 755/me 755/me 775", false},
		{"a file that all may write", "root 755/me 755/me 757", false},
		{"a folder that the group may write", "root 755/me 775/me 755", false},
		{"a folder that all may write", "root 755/root 777/root 755", false},
		{"a folder that all may write, further up", "root 777/me 755/me 755", false},
		{"my folder in one for all", "root 1777/me 755/me 755", true},
		{"root's folder in one for all", "root 1777/root 755/me 755", true},
		{"another's folder in one for all", "root 1777/other 755/me 755", false},
		{"my file in a folder for all", "root 755/root 1777/me 755", false},
		{"my folder in another's for all", "other 1777/me 755/me 755", false},
		{"a folder for all in one for all", "root 1777/root 1777/me 755", false},
		{"a link to my file", "root 755/me 755/link", false},
		{"a link to my folder", "root 755/link/me 755", false},
		{"nothing that can be run", "root 755/root 755/root 644", false},
		{"a folder", "root 755/root 755/folder", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			for i, me := range []int{0, stranger} {
				path := arrange(t, c.path, me)
				out := look(t, shells[i], me, command(job.LaunchOptions{}, path, reaper.Role))
				want := needMark + build.Machine() + lineEnd
				if c.runs {
					want = "ran\n"
				}
				require.Equal(t, want, out, "as %d", me)
			}
		})
	}
}

// An ibrun that root has installed is started without a search, by any login shell. It is searched
// for where others could change it, and where a node has none.
func TestInstalledIsRunAtOnce(t *testing.T) {
	dir := place(t, "/opt")
	path := filepath.Join(dir, "ibrun")
	require.NoError(t, executable.Write(path, []byte("#!/bin/sh\necho ran $*\n")))
	at := command(job.LaunchOptions{}, path, reaper.Role)
	require.LessOrEqual(t, len(at), mostCommand)
	said := func(shell, text string) string {
		cmd := exec.Command(shell, "-c", text)
		cmd.Env, cmd.Dir = []string{"PATH=" + os.Getenv("PATH")}, "/"
		out, err := cmd.Output()
		require.NoError(t, err, shell)
		return string(out)
	}
	for _, shell := range append([]string{"/bin/tcsh", "/usr/bin/fish"}, shells...) {
		t.Run(filepath.Base(shell), func(t *testing.T) {
			if _, err := os.Stat(shell); err != nil {
				skip.Because(t, "needs "+shell+": apt-get install tcsh fish")
			}
			require.Equal(t, "ran "+reaper.Role+" "+build.ID()+"\n", said(shell, at))
			require.NoError(t, os.Rename(path, path+".away"))
			require.Equal(t, needMark+build.Machine()+lineEnd, said(shell, at))
			require.NoError(t, os.Rename(path+".away", path))
		})
	}
	t.Setenv("PATH", "/nonexistent")                         // no stat, with which it would be searched for
	task := taskText(job.LaunchOptions{}, path, reaper.Role) // of a step with several hosts
	require.Equal(t, "ran "+reaper.Role+" "+build.ID()+"\n", said("/bin/sh", task))
	require.NoError(t, os.Rename(path, path+".away"))
	require.Equal(t, aloneMark+lineEnd, said("/bin/sh", task), "this node gets a session of its own")
	require.NoError(t, os.Rename(path+".away", path))
	for name, spoil := range map[string]func() error{
		"a file that the group may write":   func() error { return os.Chmod(path, 0o775) },
		"a folder that all may write":       func() error { return os.Chmod(dir, 0o777) },
		"another's file":                    func() error { return os.Chown(path, stranger, 0) },
		"another's folder":                  func() error { return os.Chown(dir, stranger, 0) },
		"a file that is not there any more": func() error { return os.Remove(path) },
	} {
		require.NoError(t, spoil(), name)
		require.False(t, installed(path), name)
		require.NoError(t, executable.Write(path, []byte("#!/bin/sh\n")))
		for _, p := range []string{path, dir} {
			require.NoError(t, os.Chown(p, 0, 0))
			require.NoError(t, os.Chmod(p, 0o755))
		}
		require.True(t, installed(path), name)
	}
	for _, p := range []string{"/bin/sh/..", "/opt/../tmp/x", "/optical/x", "/usr", "/opt/a b", dir} {
		require.False(t, installed(p), p)
	}
}

// arrange makes folders and in the last of them a program, as described.
func arrange(t *testing.T, described string, me int) (path string) {
	owners := map[string]int{"root": 0, "me": me, "other": stranger + 1}
	path = place(t, "/var/lib")
	parts := strings.Split(described, "/")
	for i, part := range parts {
		last := i == len(parts)-1
		at := filepath.Join(path, "ibrun")
		owner, mode := "", uint32(0)
		switch n, _ := fmt.Sscanf(part, "%s %o", &owner, &mode); {
		case part == "link":
			to := filepath.Join(path, "real")
			program(t, to, last)
			require.NoError(t, os.Symlink(to, at))
		case part == "folder":
			program(t, at, false)
		default:
			require.Equal(t, 2, n, part)
			program(t, at, last)
			require.NoError(t, os.Chown(at, owners[owner], owners[owner]))
			require.NoError(t, syscall.Chmod(at, mode))
		}
		path = at
	}
	return path
}

// program makes a file that says that it runs, or a folder.
func program(t *testing.T, path string, file bool) {
	if !file {
		require.NoError(t, os.Mkdir(path, 0o755))
		return
	}
	require.NoError(t, executable.Write(path, []byte("#!/bin/sh\necho ran\n")))
}

// The copy in the cache is run as long as it is what was put there; whatever is
// wrong with it is repaired.
func TestCachedCopy(t *testing.T) {
	for _, shell := range shells {
		t.Run(filepath.Base(shell), func(t *testing.T) {
			n := newNode(t, shell, "", waitfor.Deadline)
			// What others may do above the cache has no effect on it.
			above := filepath.Dir(n.cache())
			require.NoError(t, os.Mkdir(above, 0o775))
			require.NoError(t, os.Chmod(above, 0o775))
			require.Equal(t, shipped, n.launch(t))
			require.Equal(t, found, n.launch(t))
			inode := func() uint64 {
				var st syscall.Stat_t
				_ = syscall.Stat(n.cached(), &st) // 0: there is none
				return st.Ino
			}
			right := content(t, n.cached())
			change := func(text []byte) func() {
				return func() {
					require.NoError(t, executable.Write(n.cached(), text))
				}
			}
			wrong := slices.Clone(right)
			wrong[len(wrong)/2] ^= 1
			for _, c := range []struct {
				name  string
				spoil func()
				sent  bool
			}{
				{"empty", change(nil), true},
				{"cut short", change(right[:len(right)/2]), true},
				{"one bit", change(wrong), true},
				{"one bit, with the time of before", func() {
					st, err := os.Stat(n.cached())
					require.NoError(t, err)
					change(wrong)()
					require.NoError(t, os.Chtimes(n.cached(), st.ModTime(), st.ModTime()))
				}, true},
				{"another program", change([]byte("#!/bin/sh\necho no agent\n")), true},
				{"not executable", func() { require.NoError(t, os.Chmod(n.cached(), 0o600)) }, false},
				{"the group may write", func() { require.NoError(t, os.Chmod(n.cached(), 0o770)) }, true},
				{"removed", func() { require.NoError(t, os.Remove(n.cached())) }, true},
				{"written again", change(right), false},
				{"without digest", func() { require.NoError(t, os.Remove(n.cached()+digestSuffix)) }, false},
			} {
				if shell != shells[0] && c.name != "one bit" && c.name != "removed" {
					continue // the other shell has them
				}
				c.spoil()
				before := inode()
				require.Equal(t, shipped, n.launch(t), c.name)
				require.Equal(t, c.sent, before != inode(), c.name)
				require.Equal(t, found, n.launch(t), c.name)
				require.Equal(t, right, content(t, n.cached()), c.name)
			}
			require.Empty(t, left(t, n.cache()))
			require.Empty(t, left(t, n.tmp))
		})
	}
}

// Where the cache cannot be trusted or does not exist the binary goes into a
// folder of its own, and nothing of it stays.
func TestNoCache(t *testing.T) {
	for name, more := range map[string]string{
		"no HOME":                "unset HOME",
		"HOME is not there":      "export HOME=/nonexistent",
		"HOME is relative":       "export HOME=x",
		"cache of another user":  `mkdir -p "$HOME/.cache/ibrun"; chown 64322 "$HOME/.cache/ibrun"`,
		"cache for all":          `mkdir -p "$HOME/.cache/ibrun"; chmod 777 "$HOME/.cache/ibrun"`,
		"cache cannot be made":   `touch "$HOME/.cache"`,
		"cache is not to be run": "",
	} {
		t.Run(name, func(t *testing.T) {
			if os.Geteuid() != 0 && strings.Contains(more, "chown") {
				skip.Because(t, "needs root: a folder of another user")
			}
			n := newNode(t, "/bin/sh", more, waitfor.Deadline)
			if more == "" {
				if os.Geteuid() != 0 {
					skip.Because(t, "needs root: a file system from which nothing may be run")
				}
				require.NoError(t, os.MkdirAll(n.cache(), 0o700))
				require.NoError(t, syscall.Mount("none", n.cache(), "tmpfs", syscall.MS_NOEXEC, ""))
				defer syscall.Unmount(n.cache(), syscall.MNT_DETACH)
			}
			require.Equal(t, shipped, n.launch(t))
			require.Empty(t, left(t, n.tmp))
			require.NoDirExists(t, "/nonexistent")
			require.NoFileExists(t, n.cached())
			require.Empty(t, left(t, n.cache()))
		})
	}
}
