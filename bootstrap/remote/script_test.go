package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/reaper"
	"ibrun/internal/build"
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

func content(t *testing.T, file string) []byte {
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return text
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
