package reaper_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/reaper"
	"ibrun/test/waitfor"
)

// reaped is a run of testdata/reaped.
type reaped struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	errs bytes.Buffer
}

// programs are testdata/reaped, by where it begins.
var programs = map[string]string{}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "reaped")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	flags := map[string]string{"go": ""}
	if runtime.GOARCH == "amd64" {
		flags["entry"] = "-E ibrun/bootstrap/reaper.entry"
	}
	for begin, flags := range flags {
		programs[begin] = filepath.Join(dir, begin)
		build := exec.Command("go", "build", "-ldflags", "-w "+flags, "-o", programs[begin], "./testdata/reaped")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "%s\n", out)
			return 1
		}
	}
	return m.Run()
}

// both runs a test with a reaper that begins in Go, and with one that begins before.
func both(t *testing.T, test func(t *testing.T, start func(what string, number int) *reaped)) {
	for begin, path := range programs {
		t.Run(begin, func(t *testing.T) {
			test(t, func(what string, number int) *reaped {
				g := &reaped{cmd: exec.Command(path, ":reaper", what, strconv.Itoa(number))}
				g.cmd.Env, g.cmd.Stderr = []string{"GREETING=hello", "PATH=" + os.Getenv("PATH")}, &g.errs
				return g.started(t)
			})
		})
	}
}

func (g *reaped) started(t *testing.T) *reaped {
	var err error
	g.in, err = g.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := g.cmd.StdoutPipe()
	require.NoError(t, err)
	g.out = bufio.NewReader(out)
	require.NoError(t, g.cmd.Start())
	t.Cleanup(func() { _ = g.cmd.Process.Kill() })
	return g
}

func (g *reaped) line(t *testing.T) string {
	text, err := g.out.ReadString('\n')
	require.NoError(t, err, "%s", &g.errs)
	return strings.TrimSuffix(text, "\n")
}

func (g *reaped) agent(t *testing.T) (pid int) {
	var reaper, session int
	var rest string
	_, err := fmt.Sscanf(g.line(t), "%d %d %d %s", &reaper, &pid, &session, &rest)
	require.NoError(t, err)
	require.Equal(t, g.cmd.Process.Pid, reaper)
	require.Equal(t, pid, session, "the agent leads a session of its own")
	t.Cleanup(func() {
		if t.Failed() { // it may be stopped, and then nobody else ends it
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	require.Equal(t, "hello;1;3;4", rest, "the environment, with one word more, and the arguments")
	return pid
}

// end lets the agent do what it is there for, and returns the reaper's exit code.
func (g *reaped) end(t *testing.T) int {
	_, err := g.in.Write([]byte("\n"))
	require.NoError(t, err)
	_, err = io.ReadAll(g.out)
	require.NoError(t, err)
	_ = g.cmd.Wait()
	return g.cmd.ProcessState.ExitCode()
}

func status(t *testing.T, pid int, word string) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(text), word+":")
	require.True(t, found)
	return strings.TrimSpace(rest[:strings.IndexByte(rest, '\n')])
}

// stop stops a process, and waits until it is: a thread of it may go on for a moment, to the end of
// its input.
func stop(t *testing.T, pid int) {
	require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	waitfor.Require(t, "it stops", func() bool { return strings.HasPrefix(status(t, pid, "State"), "T") })
}

// signals is one of the masks of proc(5), the signal 1 in the lowest bit.
func signals(t *testing.T, pid int, word string) uint64 {
	mask, err := strconv.ParseUint(status(t, pid, word), 16, 64)
	require.NoError(t, err)
	return mask
}

func TestExitCode(t *testing.T) {
	both(t, func(t *testing.T, start func(string, int) *reaped) {
		for _, code := range []int{0, 7, 255} {
			g := start("exit", code)
			g.agent(t)
			require.Equal(t, code, g.end(t))
		}
		for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
			g := start("die", int(signal))
			g.agent(t)
			require.Equal(t, 128+int(signal), g.end(t))
		}
	})
}

func TestNothingIsLeft(t *testing.T) {
	both(t, func(t *testing.T, start func(string, int) *reaped) {
		g := start("leave", int(syscall.SIGKILL))
		left, err := strconv.Atoi(g.line(t))
		require.NoError(t, err)
		g.agent(t)
		require.NoError(t, syscall.Kill(left, 0))
		require.Equal(t, 128+int(syscall.SIGKILL), g.end(t))
		state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", left)) // dead, whether or not init has reaped it
		require.True(t, err != nil || bytes.Contains(state, []byte(") Z ")), "%s", state)
	})
}

func TestSignalsDoNothing(t *testing.T) {
	both(t, func(t *testing.T, start func(string, int) *reaped) {
		g := start("exit", 3)
		agent := g.agent(t)
		// The reaper has let go of standard output when it is ready for signals: before, they would
		// end it.
		waitfor.Require(t, "the reaper lets go", func() bool { return !holds(t, g.cmd.Process.Pid, agent) })
		// What the reaper does about signals is its own affair: the agent ignores none but those
		// that we do.
		blocked, ignored := signals(t, agent, "SigBlk"), signals(t, agent, "SigIgn")
		for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGHUP, syscall.SIGPIPE, syscall.SIGTERM} {
			require.NoError(t, syscall.Kill(g.cmd.Process.Pid, s))
			require.Zero(t, blocked>>(s-1)&1, s)
			require.True(t, signal.Ignored(s) || ignored>>(s-1)&1 == 0, s)
		}
		if strings.HasSuffix(t.Name(), "/entry") {
			held := uint64(1<<(syscall.SIGUSR1-1) | 1<<(syscall.SIGUSR2-1))
			for _, s := range reaper.Passed {
				held |= 1 << (reaper.AsPassed(s) - 1)
			}
			require.Equal(t, held, blocked, "signals that an agent receives")
		}
		require.Equal(t, 3, g.end(t))
	})
}

// holds reports whether a reaper has its agent's standard output open.
func holds(t *testing.T, reaper, agent int) bool {
	link, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/1", agent))
	require.NoError(t, err)
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", reaper))
	require.NoError(t, err)
	for _, f := range files {
		if to, _ := os.Readlink(f); to == link {
			return true
		}
	}
	return false
}

func TestReaperKilled(t *testing.T) {
	both(t, func(t *testing.T, start func(string, int) *reaped) {
		g := start("exit", 0)
		g.agent(t)
		require.NoError(t, g.cmd.Process.Kill())
		require.Equal(t, "no reaper", g.line(t))
	})
}

// TestEntryIsSmall shows that a reaper that begins before Go is no Go program.
func TestEntryIsSmall(t *testing.T) {
	both(t, func(t *testing.T, start func(string, int) *reaped) {
		g := start("exit", 0)
		g.agent(t)
		threads, err := strconv.Atoi(status(t, g.cmd.Process.Pid, "Threads"))
		require.NoError(t, err)
		require.Equal(t, strings.HasSuffix(t.Name(), "/entry"), threads == 1, "%d threads", threads)
		require.Equal(t, 0, g.end(t))
	})
}

// gone reports whether a process has ended. It also returns true for a zombie.
func gone(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || bytes.Contains(stat, []byte(") Z "))
}

// TestStoppedAndContinued: an agent that is stopped for a while ends as it likes
// afterwards. (How long that while may be is shown over real links: test/ssh.)
func TestStoppedAndContinued(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, start func(string, int) *reaped) {
		t.Parallel()
		g := start("exit", 9)
		agent := g.agent(t)
		stop(t, agent)
		require.NoError(t, syscall.Kill(agent, syscall.SIGCONT))
		require.Equal(t, 9, g.end(t))
	})
}

// The files of an agent that was killed are removed, even if no process is left of it.
func TestFilesOfTheKilled(t *testing.T) {
	for begin, path := range programs {
		t.Run(begin, func(t *testing.T) {
			tmp := t.TempDir()
			folder := filepath.Join(tmp, "ibrun-scratch-1")
			require.NoError(t, os.Mkdir(folder, 0o700))
			require.NoError(t, os.WriteFile(folder+"/files", nil, 0o600))
			cmd := exec.Command(path, ":reaper", "die", strconv.Itoa(int(syscall.SIGKILL)))
			cmd.Env, cmd.Stdin = []string{"TMPDIR=" + tmp}, strings.NewReader("\n")
			_, err := cmd.Output()
			require.Error(t, err)
			require.Equal(t, 137, cmd.ProcessState.ExitCode())
			require.NoDirExists(t, folder)
		})
	}
}

// What a resource manager sends to the process that it has started reaches the agent, once and as
// another signal, and does not end the reaper.
func TestPassesSignals(t *testing.T) {
	both(t, func(t *testing.T, start func(what string, number int) *reaped) {
		g := start("take", 3)
		g.agent(t)
		for _, s := range reaper.Passed {
			if s == syscall.SIGURG && !strings.HasSuffix(t.Name(), "/entry") {
				continue
			}
			require.NoError(t, g.cmd.Process.Signal(s))
			require.Equal(t, "got "+strconv.Itoa(int(s)), g.line(t))
		}
		for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGPIPE} {
			require.NoError(t, g.cmd.Process.Signal(s))
		}
		require.NoError(t, g.cmd.Process.Signal(syscall.SIGUSR1))
		require.Equal(t, "got 10", g.line(t), "nothing else comes")
		require.Equal(t, 3, g.end(t))
	})
}
