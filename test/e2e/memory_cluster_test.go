//go:build cluster

package e2e

import (
	"os"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/test/launch"
	"ibrun/test/memgroup"
	"ibrun/test/skip"
)

// TestOutOfMemory lets the kernel kill a rank that exceeds the memory limit of its cgroup. The message must say that
// the kernel was out of memory. If a rank kills itself by SIGKILL, the message must not mention memory.
func TestOutOfMemory(t *testing.T) {
	if os.Getuid() != 0 {
		skip.Because(t, "only root can make cgroups")
	}
	group, words := memgroup.Enter(t, 100<<20)
	in := func(args ...string) launch.Outcome {
		cmd := launch.Command(t, args...)
		cmd.Args = slices.Concat(words, []string{launch.Program}, args)
		cmd.Path = "/bin/sh"
		return launch.Finish(t, cmd)
	}
	o := in("-n", "1", "sleep", "100", ":", "-n", "1", "tail", "/dev/zero") // tail buffers a line that never ends
	require.Equal(t, 128+int(syscall.SIGKILL), o.Code, o.Stderr)
	require.Contains(t, o.Stderr, "was killed by signal 9 (KILL): the kernel was out of memory (cgroup "+group+")")
	o = in("-n", "2", "sh", "-c", "kill -9 $$")
	require.Equal(t, 128+int(syscall.SIGKILL), o.Code, o.Stderr)
	require.NotContains(t, o.Stderr, "memory")
}
