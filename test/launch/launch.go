// Package launch runs ibrun for tests. A test waits until ibrun exits, or starts a job and controls it with ibrun ctl.
//
//	func TestMain(m *testing.M) { os.Exit(product.Run(m, &launch.Program)) }
//	func TestTrue(t *testing.T) { o := launch.Ibrun(t, "-n", "2", "true"); require.Equal(t, 0, o.Code, o.Stderr) }
package launch

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/test/product"
	"ibrun/test/screen"
	"ibrun/test/waitfor"
)

// Program is the path of ibrun. TestMain must set it.
var Program string

// timeout is the time after which an ibrun is killed, so that a test cannot hang.
const timeout = 3 * time.Minute

// Outcome holds the exit code and the output of a program that has ended.
type Outcome struct {
	Code   int
	Stdout string
	Stderr string // without lines that begin with "ibrun: waiting for"
}

// Command returns a command that runs ibrun in a new temporary folder. ibrun is killed when the test ends, or three
// minutes after this call.
func Command(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, Program, args...)
	cmd.Dir = t.TempDir()
	return cmd
}

// Ibrun runs ibrun, waits for it, and returns its exit code and output.
func Ibrun(t testing.TB, args ...string) Outcome {
	t.Helper()
	return Finish(t, Command(t, args...))
}

// Finish runs a command, waits for it, and returns its exit code and output. If cmd.Stdout or cmd.Stderr is set, the
// output goes there, and the same field of the Outcome is empty.
func Finish(t testing.TB, cmd *exec.Cmd) Outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if cmd.Stdout == nil {
		cmd.Stdout = &stdout
	}
	if cmd.Stderr == nil {
		cmd.Stderr = &stderr
	}
	err := cmd.Run()
	if cmd.ProcessState == nil {
		require.NoError(t, err)
	}
	return Outcome{cmd.ProcessState.ExitCode(), stdout.String(), product.Complaints(stderr.String())}
}

// Went requires that the program exited with code 0, that its standard output consists of these lines in any order, and
// that its standard error is empty. A failure message includes context.
func (o Outcome) Went(t testing.TB, lines []string, context ...any) {
	t.Helper()
	require.Equal(t, 0, o.Code, "%v: %s%s", context, o.Stdout, o.Stderr)
	require.Equal(t, slices.Sorted(slices.Values(lines)), Lines(o.Stdout), "%v: %s", context, o.Stderr)
	require.Empty(t, o.Stderr, context...)
}

// Lines returns the sorted lines of a text.
func Lines(text string) []string {
	return slices.Sorted(strings.SplitSeq(strings.TrimSpace(text), "\n"))
}

// Job is a running ibrun. Its control socket is in a temporary folder, so that ibrun ctl finds no other job there.
type Job struct {
	Cmd      *exec.Cmd
	Env      []string // the environment of ibrun and of the commands that Run and Ctl start
	Out, Err screen.Screen

	t testing.TB
}

// Start starts a job. It is killed when the test ends.
func Start(t testing.TB, args ...string) *Job {
	t.Helper()
	j := &Job{Cmd: Command(t, args...), Env: append(os.Environ(), "XDG_RUNTIME_DIR="+SocketFolder(t)), t: t}
	j.Cmd.Env, j.Cmd.Stdout, j.Cmd.Stderr = j.Env, &j.Out, &j.Err
	require.NoError(t, j.Cmd.Start())
	t.Cleanup(func() {
		_ = j.Cmd.Process.Kill()
		_ = j.Cmd.Wait()
	})
	return j
}

// SocketFolder returns a new folder with a short path, because the path of a socket has at most 107 bytes.
func SocketFolder(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ctl")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// Sleepers starts a job of three nodes in a chain with two ranks each. The ranks sleep until the job is ended.
func Sleepers(t testing.TB) *Job {
	t.Helper()
	j := Start(t, "--launcher", "local", "--tree", "chain", "--hosts", "a:2,b:2,c:2", "--bind-to", "none", "sh", "-c",
		"echo up; exec sleep 1000")
	j.Until("6 ranks: runs", "status")
	return j
}

// Wait waits for the end of the job and returns its exit code.
func (j *Job) Wait() int {
	_ = j.Cmd.Wait()
	return j.Cmd.ProcessState.ExitCode()
}

// Run runs a program, waits for it, and returns its exit code and output. The program has the environment of the job,
// by which ibrun ctl and the library for tools find the job's control socket.
func (j *Job) Run(program string, args ...string) Outcome {
	j.t.Helper()
	cmd := exec.CommandContext(j.t.Context(), program, args...)
	cmd.Env = j.Env
	return Finish(j.t, cmd)
}

// Ctl runs ibrun ctl on the job.
func (j *Job) Ctl(args ...string) Outcome {
	j.t.Helper()
	return j.Run(Program, append([]string{"ctl"}, args...)...)
}

// Until runs ibrun ctl with these arguments again and again until its standard output matches the regular expression
// pattern, and returns this output.
func (j *Job) Until(pattern string, args ...string) (answer string) {
	j.t.Helper()
	found := regexp.MustCompile(pattern)
	waitfor.Require(j.t, fmt.Sprintf("ctl %v: %s", args, pattern), func() bool {
		answer = j.Ctl(args...).Stdout
		return found.MatchString(answer)
	})
	return answer
}

// End ends the job with ibrun ctl end, and requires that ibrun exits with code 143, which stands for SIGTERM.
func (j *Job) End() {
	j.t.Helper()
	require.Equal(j.t, 0, j.Ctl("end").Code)
	require.Equal(j.t, 143, j.Wait(), j.Err.String())
}
