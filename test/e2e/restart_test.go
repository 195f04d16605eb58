package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/executable"
)

// A rank that fails starts again, with nothing of its old start left: what it had started is killed
// first, what it had printed comes first, and its file goes on. The job's code is that of its ends.
func TestRestart(t *testing.T) {
	script := `echo $IBRUN_RESTART of $RANK
[ $RANK = 1 -a $IBRUN_RESTART -lt 2 ] || exit 0
(trap "" TERM; sleep 1000) & setsid sleep 1000 & kill -9 $$`
	dir := t.TempDir()
	o := ibrun(t, "--launcher", "local", "-H", "a,b", "-n", "3", "--on-failure", "restart", "--output", dir+"/%r",
		"sh", "-c", script)
	require.Equal(t, 0, o.code, o.stderr)
	require.Equal(t, 2, strings.Count(o.stderr, "was killed by signal 9 (KILL); it starts again"), o.stderr)
	for name, want := range map[string]string{"1": "0 of 1\n1 of 1\n2 of 1\n", "2": "0 of 2\n"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, want, string(text))
	}

	o = ibrun(t, "-n", "2", "--on-failure", "restart", "--max-restarts", "1", "sh", "-c",
		"[ $RANK = 0 ] || exit 7; exec sleep 1000")
	require.Equal(t, 7, o.code)
	require.Contains(t, o.stderr, "rank 1 on ")
	require.Contains(t, o.stderr, "exited with code 7: after 1 restart, which is the most (--max-restarts)")
}

// A program that is not there any more cannot be started again: both causes are named.
func TestRestartOfNothing(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, executable.Write(dir+"/once", []byte("#!/bin/sh\nrm "+dir+"/once\nexit 3\n")))
	o := ibrun(t, "-n", "1", "--on-failure", "restart", dir+"/once")
	require.Equal(t, 127, o.code, o.stderr)
	require.Contains(t, o.stderr, "exited with code 3; it starts again")
	require.Contains(t, o.stderr, "no such file; it was to start again after it had failed")
}

// A rank that speaks PMI is not started again alone, and the line says so.
func TestRestartOfPMI(t *testing.T) {
	o := ibrun(t, "-n", "2", "--on-failure", "restart", "sh", "-c",
		`printf 'cmd=init pmi_version=1 pmi_subversion=1\n' >&3; read answer <&3; kill -9 $$`)
	require.Equal(t, 137, o.code, o.stderr)
	require.Contains(t, o.stderr,
		"it uses PMI, so it cannot be restarted alone; hint: --on-failure end, and start the job again")
}
