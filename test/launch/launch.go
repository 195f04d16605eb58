// Package launch runs ibrun for tests, to its end or as a job that the test controls by ibrun ctl.
//
//	func TestMain(m *testing.M) { os.Exit(product.Run(m, &launch.Program)) }
//	func TestIt(t *testing.T)   { o := launch.Ibrun(t, "-n", "2", "true"); require.Equal(t, 0, o.Code, o.Stderr) }
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

// Program is the path of ibrun, which TestMain sets.
var Program string

// patience is the time after which ibrun is killed, so that no test hangs.
const patience = 3 * time.Minute

// Outcome holds the exit code and the output of a program that has ended.
type Outcome struct {
	Code   int
	Stdout string
	Stderr string // without the lines in which ibrun reports what it waits for
}

// Command returns a command that runs ibrun in a new folder. ibrun is killed when the test ends.
func Command(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, Program, args...)
	cmd.Dir = t.TempDir()
	return cmd
}

// Ibrun runs ibrun to its end.
func Ibrun(t testing.TB, args ...string) Outcome {
	t.Helper()
	return Finish(t, Command(t, args...))
}

// Finish runs a command to its end. If the command has a writer for an output, the outcome does not have it.
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

// Went requires that the program has ended with code 0 and has printed these lines in any order, and nothing else.
func (o Outcome) Went(t testing.TB, lines []string, context ...any) {
	t.Helper()
	require.Equal(t, 0, o.Code, "%v: %s%s", context, o.Stdout, o.Stderr)
	require.Equal(t, slices.Sorted(slices.Values(lines)), Lines(o.Stdout), "%v: %s", context, o.Stderr)
	require.Empty(t, o.Stderr, context...)
}

// Lines returns the lines of a text, sorted.
func Lines(text string) []string {
	return slices.Sorted(strings.SplitSeq(strings.TrimSpace(text), "\n"))
}

// Job is a running ibrun with a control socket in a folder of its own.
type Job struct {
	Cmd      *exec.Cmd
	Env      []string // of the job, and of the commands that Run and Ctl start
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

// Run runs a program to its end in the environment of the job, in which it can find the job as ibrun ctl does.
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

// Until runs ibrun ctl until its answer matches a pattern, and returns the answer.
func (j *Job) Until(pattern string, args ...string) (answer string) {
	j.t.Helper()
	found := regexp.MustCompile(pattern)
	waitfor.Require(j.t, fmt.Sprintf("ctl %v: %s", args, pattern), func() bool {
		answer = j.Ctl(args...).Stdout
		return found.MatchString(answer)
	})
	return answer
}

// End ends the job by ibrun ctl end, and requires its exit code.
func (j *Job) End() {
	j.t.Helper()
	require.Equal(j.t, 0, j.Ctl("end").Code)
	require.Equal(j.t, 143, j.Wait(), j.Err.String())
}
