package e2e

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/skip"
)

// The agent of a node is the program of a leaf, whose text is mapped at an address of its own, and
// nothing of the whole program but the page or two of its entry. A rank finds the timer slack that
// the kernel has for everybody, whatever the agent's own is, and signals as they are by default.
func TestLeaf(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		skip.Because(t, "a leaf is mapped by an entry that is written for x86-64")
	}
	o := finish(t, command(t, "-n", "1", "sh", "-c", "grep -c ^10000000- /proc/$PPID/maps; "+
		`grep -c '^00[4-9a-f]' /proc/$PPID/maps; `+
		"cat /proc/self/timerslack_ns; grep -E 'Sig(Ign|Blk)' /proc/self/status"))
	require.Zero(t, o.code, o.stderr)
	require.Equal(t, "1\n1\n50000\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n", string(o.stdout))
}
