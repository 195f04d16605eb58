//go:build mpi

package mpi

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/test/executable"
	"ibrun/test/launch"
	"ibrun/test/waitfor"
)

// TestTool runs testdata/tool.c, a program of the library for tools (cgo/tool). The program acts as the front end of a
// tool. It attaches to a job with several agents, and starts daemons on the hosts of the job. These daemons are the
// members of a session. The program is compiled with sanitizers.
func TestTool(t *testing.T) {
	tool := withLibrary(t, "tool")
	t.Run("session", func(t *testing.T) { toolSession(t, tool) })
	t.Run("per-rank", func(t *testing.T) { toolPerRank(t, tool) })
	t.Run("ends", func(t *testing.T) { toolEnds(t, tool) })
	t.Run("launch", func(t *testing.T) { toolLaunch(t, tool) })
	t.Run("outside", func(t *testing.T) {
		out, err := exec.Command(tool, "member", "all").CombinedOutput()
		require.Error(t, err)
		require.Contains(t, string(out), "not a member of a session")
	})
}

// toolSession starts two sessions of one job at the same time. The members of each session must be able to call
// collectives, must get a table of the ranks on their node, and must exchange messages of 0 bytes to 3 MB with the
// front end.
func toolSession(t *testing.T, tool string) {
	r := launch.Sleepers(t)
	got := r.Run(tool, "front", strconv.Itoa(r.Cmd.Process.Pid))
	require.Equal(t, 0, got.Code, got.Stderr)
	want := []string{"host 0 a", "host 1 c", "host 2 c", "host 3 c", "the job has no host x"}
	for i, host := range []string{"a", "a", "b", "b", "c", "c"} {
		want = append(want, fmt.Sprintf("%s %d %d 1 /bin/sh", host, i, i%2))
	}
	ranks := map[string]string{"a": "a/0/0/1 a/1/1/1", "b": "b/2/0/1 b/3/1/1", "c": "c/4/0/1 c/5/1/1"}
	for i, host := range []string{"a", "c", "c", "c"} {
		want = append(want, fmt.Sprintf(`member %d of 4: %s a "quoted" one`, i, ranks[host]))
	}
	for i, host := range []string{"a", "b", "c"} {
		want = append(want, fmt.Sprintf(`member %d of 3: %s a "quoted" one`, i, ranks[host]))
	}
	slices.Sort(want)
	lines := launch.Lines(got.Stdout)
	for i := range lines {
		lines[i] = strings.ReplaceAll(lines[i], "/usr/bin/sh", "/bin/sh")
	}
	require.Equal(t, want, lines)
	r.Until("6 ranks: runs", "status")
	r.End()
}

// toolPerRank starts sessions with one member for each rank, first on all hosts and then on two of them. If the rank
// has already ended, its member must start, too, and get an empty table of ranks.
func toolPerRank(t *testing.T, tool string) {
	t.Setenv(sanitizerOptions, "detect_leaks=1")
	r := launch.Start(t, "--launcher", "local", "--tree", "chain", "--hosts", "a:2,b:2,c:2", "--bind-to", "none",
		"sh", "-c", "[ $IBRUN_RANK = 1 ] || exec sleep 1000")
	r.Until("5 ranks: runs", "status")
	got := r.Run(tool, "per-rank", "-")
	require.Equal(t, 0, got.Code, got.Stderr)
	want := []string{"the job has no host x", "code 9", "code 9"}
	for rank, host := range []string{"a", "a", "b", "b", "c", "c"} {
		at, n := rank, 1
		if rank == 1 {
			at, n = -1, 0
		}
		want = append(want, fmt.Sprintf("member %d of 6 on %s: %d, %d ranks", rank, host, at, n))
		if host != "a" {
			want = append(want, fmt.Sprintf("member %d of 4 on %s: %d, 1 ranks", rank-2, host, rank))
		}
	}
	slices.Sort(want)
	require.Equal(t, want, launch.Lines(got.Stdout))
	r.End()
}

// readPIDs reads three lines from out. Each line has the process ID of a member of a session.
func readPIDs(t *testing.T, out io.Reader) (pids []int) {
	lines := bufio.NewScanner(out)
	for range 3 {
		require.True(t, lines.Scan())
		pid, err := strconv.Atoi(lines.Text())
		require.NoError(t, err)
		pids = append(pids, pid)
	}
	return pids
}

// toolEnds tests three ends of a session. If a member crashes, the next collective must fail in the remaining members,
// and the job must go on. If the front end is killed, the members must end. If the front end detaches, the members must
// run until the job ends.
func toolEnds(t *testing.T, tool string) {
	r := launch.Sleepers(t)
	got := r.Run(tool, "watch", "crash")
	require.Equal(t, 0, got.Code, got.Stderr)
	why := "collective failed: member 1 ended before it joined"
	require.Equal(t, []string{"0: " + why, "2: " + why, "code 137"}, launch.Lines(got.Stdout))

	c := exec.Command(tool, "watch", "stay")
	c.Env = r.Env
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	pids := readPIDs(t, out)
	require.NoError(t, c.Process.Kill())
	_ = c.Wait()
	waitfor.Require(t, "the members end", func() bool {
		return !slices.ContainsFunc(pids, func(pid int) bool { return syscall.Kill(pid, 0) == nil })
	})

	got = r.Run(tool, "detach", "-")
	require.Equal(t, 0, got.Code, got.Stderr)
	script := `cat /proc/[0-9]*/cmdline | tr '\0' ' ' | grep -o 'member stay' | head -1`
	waitfor.Require(t, "members run", func() bool {
		return r.Ctl("exec", "--hosts", "a", "--", "sh", "-c", script).Stdout == "member stay\n"
	})
	r.Until("6 ranks: runs", "status")
	r.End()
	waitfor.Require(t, "members end with the job", func() bool { return len(processesOf(t, tool)) == 0 })
}

// processesOf returns the IDs of all processes whose executable is the file tool.
func processesOf(t *testing.T, tool string) (pids []int) {
	all, err := filepath.Glob("/proc/[0-9]*/exe")
	require.NoError(t, err)
	for _, exe := range all {
		if to, err := os.Readlink(exe); err == nil && to == tool {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(exe)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// launchHeld starts a tool that launches a job of four ranks, and returns when all ranks are stopped before their first
// instruction. Each rank prints "ran" after the tool has released it. If how is "early", the tool is killed before it
// has started ibrun, and launchHeld does not wait for the ranks.
func launchHeld(t *testing.T, tool, how string) (c *exec.Cmd, in io.WriteCloser, out *bufio.Reader) {
	t.Helper()
	dir := launch.SocketFolder(t)
	link := filepath.Join(dir, "rank")
	require.NoError(t, os.Symlink("/bin/echo", link))
	starter := launch.Program
	if how == "early" { // the tool dies before ibrun starts
		starter, how = filepath.Join(dir, "starter"), "launch"
		require.NoError(t, executable.Write(starter, []byte("#!/bin/sh\nkill -9 $PPID\nexec "+launch.Program+` "$@"`)))
	}
	c = exec.CommandContext(t.Context(), tool, how, "--launcher", "local", "--hosts", "a:2,b:2", "--bind-to", "none",
		link, "ran")
	c.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+dir, "IBRUN="+starter)
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	require.NoError(t, err)
	pipe, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	out = bufio.NewReader(pipe)
	if starter != launch.Program {
		return c, in, out
	}
	line, err := out.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "held\n", line)
	require.Len(t, stoppedAtStart(t, link), 4)
	return c, in, out
}

// stoppedAtStart waits until the ranks of launchHeld, which execute link, are stopped, and returns their process IDs.
// It requires that they are not traced and that their C library is not loaded yet, so that they have executed none of
// their own instructions.
func stoppedAtStart(t *testing.T, link string) (pids []int) {
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, path := range all {
		line, _ := os.ReadFile(path)
		if string(line) != link+"\x00ran\x00" {
			continue
		}
		dir := filepath.Dir(path)
		var status []byte
		waitfor.Require(t, "the rank is stopped", func() bool {
			status, err = os.ReadFile(dir + "/status")
			return err != nil || strings.Contains(string(status), "State:\tT (stopped)")
		})
		require.NoError(t, err)
		require.Contains(t, string(status), "TracerPid:\t0\n")
		maps, err := os.ReadFile(dir + "/maps")
		require.NoError(t, err)
		require.NotContains(t, string(maps), "libc.so")
		pid, _ := strconv.Atoi(filepath.Base(dir))
		pids = append(pids, pid)
	}
	return pids
}

// toolLaunch runs tools that launch a job. Its ranks must be stopped before their first instruction until the tool
// releases them. If the tool dies first, even while ibrun starts, ibrun must release the ranks, or end the job if the
// tool has requested that at the launch. The members of the tool's session must end with the tool.
func toolLaunch(t *testing.T, tool string) {
	all := strings.Repeat("ran\n", 4)
	for how, want := range map[string]string{"launch": all, "early": all, "session": all, "ends": "", "release": all} {
		c, in, out := launchHeld(t, tool, how)
		_, err := in.Write([]byte("\n"))
		require.True(t, err == nil || how == "early", "%v", err)
		rest := make([]byte, len(want)+1)
		if how == "release" { // the tool stays
			rest = rest[:len(want)]
		}
		n, _ := io.ReadFull(out, rest)
		require.Equal(t, want, string(rest[:n]), how)
		_ = c.Process.Kill()
		_ = c.Wait()
		waitfor.Require(t, "no member is left", func() bool { return len(processesOf(t, tool)) == 0 })
	}
}
