// Package launch runs ibrun for tests. Ibrun and Finish wait until ibrun exits. Start returns while the job runs, so
// that the test can control the job with ibrun ctl.
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

// Program is the path of the ibrun that tests run. TestMain must set it, for example by product.Run.
var Program string

// timeout is the time that an ibrun may run. After that it is killed, so that a test cannot hang.
const timeout = 3 * time.Minute

// Outcome holds the exit code and the output of a program that has ended.
type Outcome struct {
	Code   int
	Stdout string
	Stderr string // without lines that begin with "ibrun: waiting for"
}

// Command returns a command that runs ibrun with these arguments in a new temporary folder. ibrun is killed three
// minutes after the call of Command or at the end of the test, whichever is first.
func Command(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, Program, args...)
	cmd.Dir = t.TempDir()
	return cmd
}

// Ibrun runs ibrun with these arguments and the limits of Command, waits for it, and returns its exit code and output.
func Ibrun(t testing.TB, args ...string) Outcome {
	t.Helper()
	return Finish(t, Command(t, args...))
}

// Finish runs cmd, waits for it, and returns its exit code and output. The exit code is -1 if a signal killed the
// program. If cmd.Stdout or cmd.Stderr is set, the output goes there, and the field of that name in the Outcome is
// empty.
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

// Went requires that the program exited with code 0, that its standard output consists of lines in any order, and that
// its standard error is empty. Otherwise the test fails with a message that contains context.
func (o Outcome) Went(t testing.TB, lines []string, context ...any) {
	t.Helper()
	require.Equal(t, 0, o.Code, "%v: %s%s", context, o.Stdout, o.Stderr)
	require.Equal(t, slices.Sorted(slices.Values(lines)), Lines(o.Stdout), "%v: %s", context, o.Stderr)
	require.Empty(t, o.Stderr, context...)
}

// Lines splits a text into lines and returns them sorted, without white space at the beginning and the end of the text.
func Lines(text string) []string {
	return slices.Sorted(strings.SplitSeq(strings.TrimSpace(text), "\n"))
}

// Job is an ibrun that has been started by Start. Its control socket is in a new temporary folder, so that ibrun ctl
// with the environment Env finds only this job.
type Job struct {
	Cmd      *exec.Cmd
	Env      []string // environment of ibrun, and of commands that Run and Ctl start
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

// Run runs a program with the environment j.Env, waits for it, and returns its exit code and output. From this
// environment, ibrun ctl and programs of the library for tools (cgo/tool) get the folder of the job's control socket.
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

// Until repeats ibrun ctl with the arguments args until its standard output matches the regular expression pattern, and
// returns that output. The test fails after the time limit of package waitfor.
func (j *Job) Until(pattern string, args ...string) (answer string) {
	j.t.Helper()
	found := regexp.MustCompile(pattern)
	waitfor.Require(j.t, fmt.Sprintf("ctl %v: %s", args, pattern), func() bool {
		answer = j.Ctl(args...).Stdout
		return found.MatchString(answer)
	})
	return answer
}

// End ends the job with "ibrun ctl end", and requires that ibrun exits with code 143 (128 + SIGTERM).
func (j *Job) End() {
	j.t.Helper()
	require.Equal(j.t, 0, j.Ctl("end").Code)
	require.Equal(j.t, 143, j.Wait(), j.Err.String())
}
