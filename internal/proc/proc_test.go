package proc

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ibrun/test/executable"
	"ibrun/test/waitfor"
)

// shell starts a script; what it prints comes line by line.
func shell(t *testing.T, script string) (*Process, func() string) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer w.Close()
	p, err := Start(Cmd{Path: "/bin/sh", Argv: []string{"sh", "-c", script}, Files: []*os.File{nil, w, w}, Setsid: true,
		Env: []string{"PATH=/usr/bin:/bin"}})
	require.NoError(t, err)
	t.Cleanup(func() {
		p.SignalGroup(syscall.SIGKILL)
		ended(t, p)
		r.Close()
	})
	lines := bufio.NewReader(r)
	return p, func() string {
		line, err := lines.ReadString('\n')
		require.NoError(t, err)
		return strings.TrimSpace(line)
	}
}

func ended(t *testing.T, p *Process) syscall.WaitStatus {
	waitfor.Closed(t, p.Done())
	return p.Status()
}

// How a process ended is told apart, whichever of many ends first.
func TestStatuses(t *testing.T) {
	var all []*Process
	for code := range 20 {
		p, _ := shell(t, "exit "+strconv.Itoa(code))
		all = append(all, p)
	}
	killed, _ := shell(t, "kill -9 $$")
	for code, p := range all {
		require.Equal(t, code, ended(t, p).ExitStatus())
	}
	require.Equal(t, syscall.SIGKILL, ended(t, killed).Signal())
	killed.Signal(syscall.SIGTERM) // its number may be another's by now: nothing is sent
}

// What cannot be started says why, with the kernel's own error.
func TestStartFails(t *testing.T) {
	dir := t.TempDir()
	text, plain := dir+"/text", dir+"/plain"
	require.NoError(t, executable.Write(text, []byte("echo hello\n")))
	require.NoError(t, os.WriteFile(plain, nil, 0o644))
	for _, c := range []struct {
		cmd  Cmd
		want error
	}{
		{Cmd{Path: "/no/such/program"}, fs.ErrNotExist},
		{Cmd{Path: "/bin/sh", Dir: "/no/such/place"}, fs.ErrNotExist},
		{Cmd{Path: plain}, fs.ErrPermission},
		{Cmd{Path: text}, syscall.ENOEXEC},
	} {
		c.cmd.Argv = []string{"x"}
		_, err := Start(c.cmd)
		var p *fs.PathError
		require.ErrorAs(t, err, &p)
		require.ErrorIs(t, err, c.want)
	}
}

// Nothing is inherited but what is named: descriptor 1 is there, 0, 2 and those
// above are not, and the environment is as given.
func TestNothingElseIsInherited(t *testing.T) {
	open, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer open.Close()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	p, err := Start(Cmd{Path: "/bin/sh", Argv: []string{"sh", "-c",
		`for fd in 0 1 2 3 4 5 6 7 8 9; do [ -e /proc/$$/fd/$fd ] && echo $fd; done; echo "$A"`}, Env: []string{"A=b"},
		Files: []*os.File{nil, w}})
	require.NoError(t, err)
	w.Close()
	ended(t, p)
	b := make([]byte, 100)
	n, err := r.Read(b)
	require.NoError(t, err)
	require.Equal(t, "1\nb\n", string(b[:n]))
}

// A signal to the group reaches what the process has started; one to the
// process does not.
func TestSignalsToGroups(t *testing.T) {
	p, line := shell(t, `trap "echo self" TERM; sh -c 'exec 2>/dev/null; trap "echo child; exit" TERM; echo ready; `+
		`while :; do sleep 0.01; done' & wait $!; wait $!`)
	require.Equal(t, "ready", line())
	p.Signal(syscall.SIGTERM)
	require.Equal(t, "self", line())
	p.SignalGroup(syscall.SIGTERM)
	got := []string{line(), line()}
	slices.Sort(got)
	require.Equal(t, []string{"child", "self"}, got)
}

// Descendants are found in any session and at any depth, parents first; a
// spared one is left out with all below it. Both ways of looking agree.
func TestDescendants(t *testing.T) {
	p, line := shell(t, `setsid sh -c 'echo $$; sh -c "echo \$\$; exec sleep 100" & wait' & wait`)
	child, err := strconv.Atoi(line())
	require.NoError(t, err)
	grandchild, err := strconv.Atoi(line())
	require.NoError(t, err)
	all := Descendants(p.Pid())
	require.Contains(t, all, child)
	require.Contains(t, all, grandchild)
	require.Less(t, slices.Index(all, child), slices.Index(all, grandchild))
	require.Empty(t, Descendants(p.Pid(), all[0]))
	for _, below := range []offspring{children(child), childrenByParent(child)} {
		require.Equal(t, []int{grandchild}, below.live)
		require.True(t, below.all())
	}
	require.False(t, dead(grandchild))
	require.True(t, dead(1<<30), "there is none")
	require.False(t, childless())

	require.NoError(t, BecomeSubreaper())
	left := KillDescendants(waitfor.Deadline, p.Pid())
	require.Empty(t, left)
	require.False(t, dead(grandchild), "it was spared")
	require.Empty(t, KillDescendants(waitfor.Deadline))
	require.True(t, ended(t, p).Signaled())
	waitfor.Require(t, "adopted orphans are reaped", func() bool { return dead(grandchild) && childless() })
	require.Empty(t, KillDescendants(waitfor.Deadline))
}

// Whoever else starts a process gets its end, once all of ours are over.
func TestOthersAreNotReaped(t *testing.T) {
	for range 20 {
		p, err := Start(Cmd{Path: "/bin/true", Argv: []string{"true"}})
		require.NoError(t, err)
		<-p.Done()
		require.NoError(t, exec.Command("/bin/true").Run())
	}
}

// A signal that is shrugged off does nothing here, and is not ignored by what
// this process starts.
func TestShrug(t *testing.T) {
	Shrug(syscall.SIGUSR2)
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGUSR2))
	p, _ := shell(t, "kill -USR2 $$; exit 0")
	status := ended(t, p)
	require.True(t, status.Signaled() && status.Signal() == syscall.SIGUSR2)
}

// A child's end of a pipe blocks, ours does not, and both are closed on exec.
func TestPipesOfAChild(t *testing.T) {
	flags := func(f *os.File) (nonblock, cloexec bool) {
		raw, err := f.SyscallConn()
		require.NoError(t, err)
		require.NoError(t, raw.Control(func(fd uintptr) {
			status, err := unix.FcntlInt(fd, unix.F_GETFL, 0)
			require.NoError(t, err)
			close, err := unix.FcntlInt(fd, unix.F_GETFD, 0)
			require.NoError(t, err)
			nonblock, cloexec = status&unix.O_NONBLOCK != 0, close&unix.FD_CLOEXEC != 0
		}))
		return nonblock, cloexec
	}
	out, theirs, err := PipeFrom()
	require.NoError(t, err)
	in, mine, err := PipeTo()
	require.NoError(t, err)
	for f, want := range map[*os.File]bool{out: true, mine: true, theirs: false, in: false} {
		defer f.Close()
		nonblock, cloexec := flags(f)
		require.Equal(t, want, nonblock)
		require.True(t, cloexec)
	}
	p, err := Start(Cmd{Path: "/bin/cat", Argv: []string{"cat"}, Files: []*os.File{in, theirs}})
	require.NoError(t, err)
	require.NoError(t, errors.Join(in.Close(), theirs.Close()))
	_, err = mine.WriteString("through")
	require.NoError(t, err)
	require.NoError(t, mine.Close())
	said, err := io.ReadAll(out)
	require.NoError(t, err)
	require.Equal(t, "through", string(said))
	<-p.Done()
}

// What is started in a row is started by one thread, and each process is its own.
func TestRow(t *testing.T) {
	var all []*Process
	var fails []error
	threads := map[int]bool{}
	Row(func(begin Beginner) {
		var begun []*Birth
		for i := range 8 {
			begun = append(begun, begin(Cmd{Path: "/bin/sh", Argv: []string{"sh", "-c", fmt.Sprintf("exit %d", i)}}))
			threads[unix.Gettid()] = true
		}
		begun = append(begun, begin(Cmd{Path: "/nonexistent", Argv: []string{"x"}}))
		for _, b := range begun {
			p, err := b.Result()
			all, fails = append(all, p), append(fails, err)
		}
	})
	require.NoError(t, errors.Join(fails[:8]...))
	require.ErrorIs(t, fails[8], os.ErrNotExist)
	require.Len(t, threads, 1)
	for i, p := range all[:8] {
		<-p.Done()
		require.Equal(t, i, p.Status().ExitStatus())
	}
}

// Where the kernel refuses a group, the process runs without.
func TestGroupRefused(t *testing.T) {
	dir, err := os.Open(t.TempDir())
	require.NoError(t, err)
	defer dir.Close()
	p, err := Start(Cmd{Path: "/bin/true", Argv: []string{"true"}, Group: dir})
	require.NoError(t, err)
	require.Equal(t, 0, ended(t, p).ExitStatus())
}

// The soft limit of open files that a program finds is the one that this process was
// started with, and not the one that package os has raised it to.
func TestLimitOfFiles(t *testing.T) {
	const inner = "IBRUN_TEST_LIMIT_OF_FILES"
	if os.Getenv(inner) == "" {
		p, line := shell(t, "ulimit -S -n 100; "+inner+"=1 exec /proc/"+strconv.Itoa(os.Getpid())+
			"/exe -test.run='^TestLimitOfFiles$'")
		require.Equal(t, "100", line())
		require.Equal(t, 0, ended(t, p).ExitStatus())
		return
	}
	var l syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l))
	require.Greater(t, l.Cur, uint64(100))
	p, err := Start(Cmd{Path: "/bin/sh", Argv: []string{"sh", "-c", "ulimit -S -n"}, Files: []*os.File{nil, os.Stdout,
		os.Stderr}})
	require.NoError(t, err)
	require.Equal(t, 0, ended(t, p).ExitStatus())
}
