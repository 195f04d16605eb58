package e2e

import (
	"os/exec"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/skip"
)

// The agent of a node is the program of a leaf, whose text is mapped at an address of its own, and
// nothing of the whole program but the page or two of its entry. A rank finds the timer slack that
// the kernel has for everybody, whatever the agent's own is, and signals as any child of this
// process does.
func TestLeaf(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		skip.Because(t, "a leaf is mapped by an entry that is written for x86-64")
	}
	o := finish(t, command(t, "-n", "1", "sh", "-c", "grep -c ^10000000- /proc/$PPID/maps; "+
		`grep -c '^00[4-9a-f]' /proc/$PPID/maps; `+
		"cat /proc/self/timerslack_ns; grep -E 'Sig(Ign|Blk)' /proc/self/status"))
	require.Zero(t, o.code, o.stderr)
	signals, err := exec.Command("grep", "-E", "Sig(Ign|Blk)", "/proc/self/status").Output()
	require.NoError(t, err)
	require.Equal(t, "1\n1\n50000\n"+string(signals), string(o.stdout))
}
