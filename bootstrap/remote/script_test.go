package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/reaper"
	"ibrun/internal/build"
	"ibrun/internal/executable"
	"ibrun/internal/skip"
	"ibrun/job"
)

// relayRole makes this binary what ssh and sshd are to a command.
const relayRole = ":relay"

// TestMain makes this binary also what the script starts: an agent that says its
// line and ends with its link.
func TestMain(m *testing.M) {
	role := append(os.Args, "")[1]
	switch role {
	case reaper.Role:
		Arrive()
		if here, _ := os.Readlink("/proc/self/cwd"); here != home() && home() != "/nonexistent" {
			fmt.Fprintln(os.Stderr, "begins in", here) // no agent prints anything in these tests
		}
		fmt.Printf("%s%s %s %d%s", agentMark, build.ID(), build.Machine(), os.Getpid(), lineEnd)
		_, _ = os.Stdin.Read(make([]byte, 1))
	case relayRole:
		os.Exit(relay(os.Args[2:]))
	case calledRole:
		os.Exit(called())
	default:
		os.Exit(m.Run())
	}
}

// relay runs a command in a session of its own with pipes of its own: when this
// process is killed the command sees the end of its input, and a broken pipe.
func relay(argv []string) int {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	errs, _ := cmd.StderrPipe()
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 255
	}
	go func() {
		_, _ = io.Copy(in, os.Stdin)
		in.Close()
	}()
	var read sync.WaitGroup
	read.Go(func() { _, _ = io.Copy(os.Stdout, out) })
	read.Go(func() { _, _ = io.Copy(os.Stderr, errs) })
	read.Wait()
	_ = cmd.Wait()
	return cmd.ProcessState.ExitCode()
}

// shells are those that may be /bin/sh.
var shells = []string{"/bin/dash", "/bin/bash"}

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
			for _, me := range []int{0, stranger} {
				path := arrange(t, c.path, me)
				for _, shell := range shells {
					out := look(t, shell, me, command(job.LaunchOptions{}, path, reaper.Role))
					want := needMark + build.Machine() + lineEnd
					if c.runs {
						want = "ran\n"
					}
					require.Equal(t, want, out, "%s as %d", shell, me)
				}
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

// look runs a command as a login shell would, as some user, with nothing to read.
func look(t *testing.T, shell string, uid int, command string) string {
	cmd := exec.Command(shell, "-c", strings.Replace(command, "/bin/sh", shell, 1))
	cmd.Env, cmd.Dir = []string{"PATH=" + os.Getenv("PATH")}, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	out, err := cmd.Output()
	require.NoError(t, err)
	return string(out)
}

// node is a far side in this machine.
type node struct {
	home, tmp string
	starter   *Starter
}

// newNode makes one. more is what its shell does first.
func newNode(t *testing.T, shell, more string, limit time.Duration) *node {
	dir := t.TempDir()
	n := &node{home: filepath.Join(dir, "it's a home"), tmp: filepath.Join(dir, "tmp")}
	require.NoError(t, os.Mkdir(n.home, 0o755))
	require.NoError(t, os.Mkdir(n.tmp, 0o755))
	n.starter = fake(t, fmt.Sprintf(`unset XDG_CACHE_HOME XDG_RUNTIME_DIR; export HOME="%s" TMPDIR="%s"; cd "$HOME"; %s
command=$(echo "$2" | sed "s,/bin/sh,%s,"); exec %s %s %s -c "$command"`,
		n.home, n.tmp, more, shell, build.Path(), relayRole, shell), limit)
	return n
}

func (n *node) cache() string { return filepath.Join(n.home, ".cache/ibrun") }

func (n *node) cached() string { return filepath.Join(n.cache(), cachedName()) }

// launch brings an agent up, ends it, and returns the phases that it went through.
func (n *node) launch(t *testing.T) []Phase {
	var phases []Phase
	note := func(p Phase) { phases = append(phases, p) }
	s, err := n.starter.Start(context.Background(), Target{Host: "h", other: true}, note)
	require.NoError(t, err)
	require.NoError(t, s.Stdin.Close())
	<-s.Done()
	require.Empty(t, s.Tail())
	return phases
}

// left are the files of a folder that are no binary.
func left(t *testing.T, dir string) (names []string) {
	entries, err := os.ReadDir(dir)
	if !errors.Is(err, syscall.ENOENT) && !errors.Is(err, syscall.ENOTDIR) {
		require.NoError(t, err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "ibrun-") {
			names = append(names, e.Name())
		}
	}
	return names
}

var (
	shipped = []Phase{Begin, Ship, Agent}
	found   = []Phase{Begin, Agent}
)

// The copy in the cache is run as long as it is what was put there; whatever is
// wrong with it is repaired.
func TestCachedCopy(t *testing.T) {
	for _, shell := range shells {
		t.Run(filepath.Base(shell), func(t *testing.T) {
			n := newNode(t, shell, "", 20*time.Second)
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
			right, err := os.ReadFile(n.cached())
			require.NoError(t, err)
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
				c.spoil()
				before := inode()
				require.Equal(t, shipped, n.launch(t), c.name)
				require.Equal(t, c.sent, before != inode(), c.name)
				require.Equal(t, found, n.launch(t), c.name)
				now, err := os.ReadFile(n.cached())
				require.NoError(t, err)
				require.Equal(t, right, now, c.name)
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
			n := newNode(t, "/bin/sh", more, 20*time.Second)
			if more == "" {
				if os.Geteuid() != 0 {
					skip.Because(t, "needs root: a file system from which nothing may be run")
				}
				require.NoError(t, os.MkdirAll(n.cache(), 0o700))
				require.NoError(t, syscall.Mount("none", n.cache(), "tmpfs", syscall.MS_NOEXEC, ""))
				defer syscall.Unmount(n.cache(), syscall.MNT_DETACH)
			}
			require.Equal(t, shipped, n.launch(t))
			require.Equal(t, shipped, n.launch(t))
			require.Empty(t, left(t, n.tmp))
			require.NoDirExists(t, "/nonexistent")
			require.NoFileExists(t, n.cached())
			require.Empty(t, left(t, n.cache()))
		})
	}
}
