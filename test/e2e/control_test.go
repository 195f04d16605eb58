package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/executable"
	"ibrun/internal/waitfor"
	"ibrun/test/screen"
)

// running is a job that can be asked.
type running struct {
	t        *testing.T
	cmd      *exec.Cmd
	env      []string
	out, err screen.Screen
}

// controlled starts a job whose socket is in a folder of this test alone.
func controlled(t *testing.T, args ...string) *running {
	dir, err := os.MkdirTemp("", "ctl") // the path of a socket has 107 bytes at most
	require.NoError(t, err)
	r := &running{t: t, cmd: command(t, args...), env: append(os.Environ(), "XDG_RUNTIME_DIR="+dir)}
	r.cmd.Env, r.cmd.Stdout, r.cmd.Stderr = r.env, &r.out, &r.err
	require.NoError(t, r.cmd.Start())
	t.Cleanup(func() {
		_ = r.cmd.Process.Kill()
		_ = r.cmd.Wait()
		os.RemoveAll(dir)
	})
	return r
}

// ends waits for the end of the job.
func (r *running) ends() int {
	_ = r.cmd.Wait()
	return r.cmd.ProcessState.ExitCode()
}

// ctl asks the job.
func (r *running) ctl(args ...string) outcome {
	c := command(r.t, append([]string{"ctl"}, args...)...)
	c.Env = r.env
	return finish(r.t, c)
}

// until asks the job until it answers with a text.
func (r *running) until(text string, args ...string) (answer string) {
	r.t.Helper()
	found := regexp.MustCompile(text)
	waitfor.Require(r.t, fmt.Sprintf("%v: %s", args, text), func() bool {
		answer = string(r.ctl(args...).stdout)
		return found.MatchString(answer)
	})
	return answer
}

// sleepers is a job of three nodes in a chain with two ranks each that runs until it is ended.
func sleepers(t *testing.T, options ...string) *running {
	args := append([]string{"--launcher", "local", "--tree", "chain", "--hosts", "a:2,b:2,c:2", "--bind-to", "none"},
		options...)
	r := controlled(t, append(args, "sh", "-c", "echo up; exec sleep 1000")...)
	r.until("6 ranks: runs", "status")
	return r
}

// end ends the job.
func (r *running) end() {
	r.t.Helper()
	require.Equal(r.t, 0, r.ctl("end").code)
	require.Equal(r.t, 143, r.ends(), r.err.String())
}

// pidOf is a rank's process.
func (r *running) pidOf(rank string) string {
	r.t.Helper()
	row := regexp.MustCompile(`(?m)^ *` + rank + ` +\w+ +(\d+) `).FindStringSubmatch(r.until("RANK", "ranks"))
	require.NotNil(r.t, row)
	return row[1]
}

// remoteShell is a command for --launcher-exec by which all hosts are this machine, but for those
// that are down.
func remoteShell(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "shell")
	script := `#!/bin/sh
case $1 in down*) echo "$1: no route to host" >&2; exit 255;; esac
shift
exec sh -c "$*"
`
	require.NoError(t, executable.Write(path, []byte(script)))
	return path
}
