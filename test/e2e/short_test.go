package e2e

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/internal/executable"
	"ibrun/test/product"
)

var shortJobs = flag.Int("jobs", 40, "short jobs that one root runs, one after the other")

// One root that runs many jobs in one process keeps nothing of them: no goroutine, descriptor, file
// or process. Agents are processes of their own, as always.
func TestShortJobs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	short := filepath.Join(dir, "short")
	require.NoError(t, product.Program(short, "ibrun/test/short"))
	launcher := filepath.Join(dir, "launcher")
	require.NoError(t, executable.Write(launcher, []byte("#!/bin/sh\nshift\nexec sh -c \"$*\"\n")))
	mark := mark(t)
	folders := []string{filepath.Join(dir, "tmp"), filepath.Join(dir, "cache")}
	env := append(os.Environ(), "TMPDIR="+folders[0], "XDG_CACHE_HOME="+folders[1], mark)
	play := func(jobs int) []string {
		cmd := exec.Command(short, fmt.Sprint(jobs), "--launcher-exec", launcher, "-H", "a,b", "-n", "4", "echo", "x")
		cmd.Env = env
		var errs strings.Builder
		cmd.Stderr = &errs
		out, err := cmd.Output()
		require.NoError(t, err, errs.String())
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		require.Len(t, lines, 2)
		require.Equal(t, lines[0], lines[1], "goroutines and descriptors before and after %d jobs\n%s", jobs,
			errs.String())
		return lines
	}
	for _, f := range folders {
		require.NoError(t, os.Mkdir(f, 0o700))
	}
	play(0) // what is kept on purpose: the copy of the binary
	before := below(t, folders)
	play(*shortJobs)
	require.Equal(t, before, below(t, folders))
	eventually(t, 5*time.Second, "no process is left", func() bool { return len(marked(mark)) == 0 })
}

// below are all files of some folders.
func below(t *testing.T, folders []string) (names []string) {
	for _, folder := range folders {
		require.NoError(t, filepath.WalkDir(folder, func(path string, _ os.DirEntry, err error) error {
			names = append(names, path)
			return err
		}))
	}
	return names
}
