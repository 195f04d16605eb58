package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/internal/executable"
)

// What cannot be obeyed is refused within a second, and nothing is started:
// the launcher here is a canary.
func TestBadInput(t *testing.T) {
	dir := t.TempDir()
	canary := filepath.Join(dir, "canary")
	launcher := filepath.Join(dir, "launcher")
	require.NoError(t, executable.Write(launcher, []byte("#!/bin/sh\ntouch "+canary+"\n")))
	file := func(name, content string) string {
		f := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(f, []byte(content), 0o600))
		return f
	}
	fifo := filepath.Join(dir, "fifo")
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"-f", file("empty", ""), "true"}, 2, "empty"},
		{[]string{"-f", file("comments", "# a\n\n"), "true"}, 2, "no host"},
		{[]string{"-f", filepath.Join(dir, "absent"), "true"}, 2, "no such file"},
		{[]string{"-f", dir, "true"}, 2, "directory"},
		{[]string{"-f", fifo, "true"}, 2, "nobody writes"},
		{[]string{"-f", "/proc/kmsg", "true"}, 2, "/proc/kmsg"},
		{[]string{"-f", "-", "true"}, 2, "standard input"},
		{[]string{"-f", file("nul", "a\nb\x00\n"), "true"}, 2, "2: binary"},
		{[]string{"-f", file("huge", strings.Repeat("a\n", 25<<20)), "true"}, 2, "host file"},
		{[]string{"-f", file("evil", "a\n-oProxyCommand=touch "+canary+"\n"), "true"}, 2, "dash"},
		{[]string{"-H", "-oProxyCommand=touch " + canary, "true"}, 2, "dash"},
		{[]string{"-H", "a;b", "true"}, 2, "character"},
		{[]string{"-H", "$(touch " + canary + ")", "true"}, 2, "character"},
		{[]string{"-H", "a b", "true"}, 2, "character"},
		{[]string{"-H", "../x", "true"}, 2, "empty part"},
		{[]string{"-H", "a\x1b[31m", "true"}, 2, ""},
		{[]string{"-H", strings.Repeat("a", 256), "true"}, 2, "255"},
		{[]string{"-H", "a:0", "true"}, 2, "slots"},
		{[]string{"-H", "a:-1", "true"}, 2, "slots"},
		{[]string{"-H", "a:9223372036854775808", "true"}, 2, "slots"},
		{[]string{"-H", "a", "-n", "0", "true"}, 2, ""},
		{[]string{"-H", "a", "-n", "99999999", "true"}, 2, ""},
		{[]string{"-H", "a", "-wdir", "/nonexistent", "true"}, 2, "working directory"},
		{[]string{"-H", "a", "nonexistent-program"}, 127, "not found"},
		{[]string{"-H", "a", dir}, 126, "directory"},
		{[]string{"-H", "a", file("plain", "x")}, 126, "executable"},
		{[]string{"-H", "a", "--hsot", "b", "true"}, 2, "did you mean"},
		{[]string{"-H", "a"}, 2, "no program"},
	} {
		o := ibrun(t, append([]string{"--launcher-exec", launcher}, c.args...)...)
		require.Equal(t, c.code, o.code, "%.200q: %s", c.args, o.stderr)
		require.Contains(t, o.stderr, c.says, "%.200q", c.args)
		require.Empty(t, o.stdout)
		require.Less(t, o.took, time.Second, "%.200q", c.args)
		require.NotContains(t, o.stderr, "\x1b")
	}
	require.NoFileExists(t, canary)
	// The canary sings when it may: the checks above can fail.
	o := ibrun(t, "--launcher-exec", launcher, "-H", "some-host", "true")
	require.Equal(t, 125, o.code)
	require.FileExists(t, canary)
}

// Hosts come from what a shell makes of <(..), and by a pipe from the left.
func TestHostsFromPipes(t *testing.T) {
	for _, line := range []string{
		`"$0" -f <(sleep 0.1; echo a; echo b) --launcher local sh -c 'echo $IBRUN_HOST; cat'`,
		`printf 'a\nb\n' | "$0" -f - --launcher local sh -c 'echo $IBRUN_HOST; cat'`,
		`printf 'a\nb\n' | "$0" -f /dev/stdin --launcher local sh -c 'echo $IBRUN_HOST; cat'`,
	} {
		out, err := exec.Command("bash", "-c", line, program).CombinedOutput()
		require.NoError(t, err, "%s: %s", line, out)
		require.ElementsMatch(t, []string{"a", "b"}, strings.Fields(string(out)), line)
	}
}

// Host files come from everywhere.
func TestHostFileForms(t *testing.T) {
	f := filepath.Join(t.TempDir(), "hosts")
	require.NoError(t, os.WriteFile(f, []byte("\xef\xbb\xbf# comment\r\na:2\r\nb slots=1\r\na\nuser@c"), 0o600))
	o := ibrun(t, "-f", f, "--launcher", "local", "sh", "-c", "echo $IBRUN_HOST")
	require.Equal(t, 0, o.code, o.stderr)
	require.Equal(t, 3, strings.Count(string(o.stdout), "a\n"))
	require.Equal(t, 1, strings.Count(string(o.stdout), "b\n"))
	require.Equal(t, 1, strings.Count(string(o.stdout), "c\n"))
}
