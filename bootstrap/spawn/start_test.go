package spawn

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/limits"
	"ibrun/job"
)

// A program is found as a shell finds it: below the rank's directory if its name
// has a slash, else in the rank's PATH; 127 is "there is none", 126 "not to be run".
func TestLookup(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"bin/app": 0o755, "bin2/app": 0o755, "plain/app": 0o644, "bin/sub/x": 0o755} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, mode))
	}
	for _, c := range []struct {
		name, path string
		want       string
		code       uint8
		cause      string
	}{
		{"bin/app", "", "bin/app", 0, ""},
		{dir + "/bin/app", "", "bin/app", 0, ""},
		{"./missing", "", "missing", 127, "no such file"},
		{"bin/app/x", "", "bin/app/x", 127, "no such file"},
		{"bin/sub", "", "bin/sub", 126, "is a directory"},
		{"plain/app", "", "plain/app", 126, "chmod +x"},
		{"app", dir + "/none:" + dir + "/bin2:" + dir + "/bin", "bin2/app", 0, ""},
		{"app", "bin", "bin/app", 0, ""},
		{"app", dir + "/plain:" + dir + "/bin", "bin/app", 0, ""},
		{"app", dir + "/plain:" + dir + "/none", "", 126, "chmod +x"},
		{"app", dir + "/none", "", 127, "not found in PATH (" + dir + "/none)"},
	} {
		path, code, err := lookup(c.name, dir, []string{"PATH=/not/this", "PATH=" + c.path})
		require.Equal(t, c.code, code, c.name)
		if c.want != "" {
			require.Equal(t, filepath.Join(dir, c.want), path)
		}
		if c.cause == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, c.cause)
		}
	}
	path, code, err := lookup("sh", dir, nil)
	require.NoError(t, err)
	require.Zero(t, code)
	require.True(t, filepath.IsAbs(path), "without a PATH, the usual places")
}

// wait's words for an end, as wait(2) packs them on Linux.
func TestStatusOf(t *testing.T) {
	require.Equal(t, job.Status{Code: 3}, StatusOf(syscall.WaitStatus(3<<8)))
	require.Equal(t, job.Status{Kind: job.Signaled, Code: 9}, StatusOf(syscall.WaitStatus(9)))
	require.Equal(t, job.Status{Kind: job.Signaled, Code: 11, Core: true}, StatusOf(syscall.WaitStatus(11|0x80)))
}

// A limit that the agent has already costs nothing; one that would harm the agent
// is left to the stub; a resource that this kernel does not know is nothing.
func TestLimits(t *testing.T) {
	const files, addresses = 7, 9
	own := limits.Original()
	s := twoPrograms(func(j *job.Job) {
		j.Umask = 0o022
		j.Limits = []job.Limit{
			{Resource: addresses, Soft: own[addresses].Soft, Hard: own[addresses].Hard},
			{Resource: files, Soft: 64, Hard: own[files].Hard},
			{Resource: limits.Count, Soft: 1, Hard: 1},
		}
	})
	s.prepare()
	require.Equal(t, []string{fmt.Sprintf("7:64:%d", own[files].Hard)}, s.stub)
	require.Equal(t, "unlimited", amount(limits.Infinity))
	require.Equal(t, "64", amount(64))
}

// The stub's own words are checked before anything is set.
func TestLimitStubRefuses(t *testing.T) {
	require.Equal(t, 125, LimitMain([]string{"7:64:64", "/bin/true"}))
	require.Equal(t, 125, LimitMain([]string{"7:64", "/bin/true", "true"}))
}
