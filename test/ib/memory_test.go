//go:build ib

package ib

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/test/memgroup"
	"ibrun/test/rdmavm/inside"
)

// TestOutOfMemory runs a rank that uses more memory than its cgroup allows, so that the kernel kills it. ibrun must
// report that the cgroup was out of memory. The test runs in the virtual machine, because this has cgroups of version
// 2.
func TestOutOfMemory(t *testing.T) {
	inside.Require(t)
	group, words := memgroup.Enter(t, 64<<20)
	require.Equal(t, "/ibrun-TestOutOfMemory", group)
	// tail keeps reading zeros from /dev/zero into memory, because it searches for the end of a line.
	args := append(words, inside.Program("ibrun"), "-n", "1", "sleep", "1000", ":", "-n", "1", "tail", "/dev/zero")
	out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "the kernel was out of memory (cgroup "+group+")")
}
