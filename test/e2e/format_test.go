package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/executable"
	"ibrun/internal/skip"
)

// A file that is no program of this machine is named with its node and the reason,
// and no shell makes anything of it. A script without #! is run by sh all the same,
// as shells have it. Whether limits are set between fork and exec makes no difference,
// but that the program's own standard error says why.
func TestNoProgram(t *testing.T) {
	good, err := os.ReadFile("/bin/sleep")
	require.NoError(t, err)
	other := append([]byte(nil), good...)
	other[18], other[19] = 183, 0 // e_machine: AArch64; where this is one, x86-64
	if good[18] == 183 {
		other[18] = 62
	}
	dir := t.TempDir()
	for _, c := range []struct {
		name string
		file []byte
		code int
		says string
	}{
		{"script", []byte("echo run by $0 >&2; exit 9\n"), 9, "exited with code 9"},
		{"other", other, 126, "wrong architecture: it is for "},
		{"short", good[:100], 126, "is truncated: it ends after 100 of "},
		{"header", good[:40], 126, "is truncated: it ends after 40 of 64 bytes or more"},
		{"magic", good[:4], 126, "is truncated: it ends after 4 of 64 bytes or more"},
		{"half", good[:len(good)/4], 128 + 11, "rank 2 on b was killed by signal 11 (SEGV): " + filepath.Join(dir,
			"half") + " is truncated: it ends after "},
		{"empty", nil, 126, "is empty"},
		{"data", append([]byte("\x1f\x8b\x08\x00>junk\n"), good[1000:2000]...), 126,
			"not a program: neither ELF nor a script"},
		{"noshell", []byte("#!/no/such/interpreter\necho >junk\n"), 126,
			"its interpreter /no/such/interpreter: no such file"},
		{"badshell", []byte("#!" + dir + "/other -x\necho >junk\n"), 126, "its interpreter " + dir +
			"/other: wrong architecture"},
	} {
		path := filepath.Join(dir, c.name)
		require.NoError(t, executable.Write(path, c.file))
		for _, limits := range []string{"", "ulimit -S -n 100; "} {
			cmd := command(t, "-n", "2", "--launcher", "local", "--hosts", "a,b", "sleep", "30", ":", "-n", "1", path)
			cmd.Args = append([]string{"sh", "-c", limits + `exec "$@"`, "sh"}, cmd.Args...)
			cmd.Path = "/bin/sh"
			o := finish(t, cmd)
			require.Equal(t, c.code, o.code, "%s %s: %s", limits, c.name, o.stderr)
			require.Contains(t, o.stderr, c.says, limits)
			if c.code == 126 && limits == "" {
				require.Contains(t, o.stderr, "rank 2 on b could not be started: "+path)
			}
			left, err := os.ReadDir(cmd.Dir)
			require.NoError(t, err)
			require.Empty(t, left, "%s: what the shell made of it", c.name)
		}
	}
}

// A node where limits cannot be as high as where ibrun was started says so once, with
// its name, and not once per rank: root cannot raise every limit, either.
func TestLimitsOfANode(t *testing.T) {
	if os.Getuid() != 0 {
		skip.Because(t, "only root has limits raised")
	}
	launcher := filepath.Join(t.TempDir(), "launcher")
	require.NoError(t, executable.Write(launcher,
		[]byte("#!/bin/sh\n[ $1 = b ] && set -- \"$@\" && shift && exec prlimit --nofile=100:200 setpriv "+
			"--bounding-set=-sys_resource sh -c \"$*\"\nshift\nexec sh -c \"$*\"\n")))
	o := ibrun(t, "-n", "8", "--launcher-exec", launcher, "--hosts", "a,b", "sh", "-c", "echo $(ulimit -n)")
	require.Equal(t, 0, o.code, o.stderr)
	require.Equal(t, 4, strings.Count(string(o.stdout), "200\n"), string(o.stdout))
	require.Equal(t, 1, strings.Count(o.stderr, "\n"), o.stderr)
	require.Contains(t, o.stderr, "ibrun: b: ")
	require.Contains(t, o.stderr, "limit NOFILE is 200 here")
}
