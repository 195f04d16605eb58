package e2e

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ibrun/internal/proc"
	"ibrun/test/launch"
)

// TestTerminalAsInput uses a terminal as the input file of a rank (--input). The terminal must not become the
// controlling terminal of the agent's session. If it did, the kernel would stop a rank that reads from it.
func TestTerminalAsInput(t *testing.T) {
	ours, theirs, err := proc.OpenTerminal(30, 100, false)
	require.NoError(t, err)
	defer ours.Close()
	defer theirs.Close()
	number, err := unix.IoctlGetInt(int(ours.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	_, err = ours.WriteString("typed\n")
	require.NoError(t, err)
	o := launch.Ibrun(t, "-n", "1", "--timeout", "60", "--input", "/dev/pts/"+strconv.Itoa(number), "sh", "-c",
		`read line; echo "$line"; cut -d" " -f7 /proc/$$/stat`)
	require.Equal(t, 0, o.Code, o.Stderr)
	require.Equal(t, "typed\n0\n", o.Stdout)
}
