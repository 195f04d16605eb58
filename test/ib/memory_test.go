//go:build ib

package ib

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/test/memgroup"
	"ibrun/test/rdmavm/inside"
)

// TestOutOfMemory lets the kernel kill a rank for lack of memory in a cgroup of version 2, which the guest has.
// ibrun must report that cause.
func TestOutOfMemory(t *testing.T) {
	inside.Require(t)
	group, words := memgroup.Enter(t, 64<<20)
	require.Equal(t, "/ibrun-TestOutOfMemory", group)
	// tail collects the zeros of /dev/zero in memory, since it waits for the end of a line.
	args := append(words, inside.Program("ibrun"), "-n", "1", "sleep", "1000", ":", "-n", "1", "tail", "/dev/zero")
	out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "the kernel was out of memory (cgroup "+group+")")
}
