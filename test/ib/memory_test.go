//go:build ib

package ib

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/test/memgroup"
	"ibrun/test/rdmavm/inside"
)

// TestOutOfMemory: a rank that the kernel kills for lack of memory is named with that. The guest
// has version 2 of cgroups.
func TestOutOfMemory(t *testing.T) {
	inside.Require(t)
	group, words := memgroup.Enter(t, 64<<20)
	require.Equal(t, "/ibrun-TestOutOfMemory", group)
	// which keeps the last lines
	args := append(words, inside.Program("ibrun"), "-n", "1", "sleep", "1000", ":", "-n", "1", "tail", "/dev/zero")
	out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "the kernel was out of memory (cgroup "+group+")")
}
