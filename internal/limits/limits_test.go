package limits_test

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/limits"
)

// What a process was started with is known, though package syscall has raised one of it.
func TestOriginal(t *testing.T) {
	const inner = "IBRUN_TEST_ORIGINAL"
	if os.Getenv(inner) == "" {
		again := exec.Command("sh", "-c", "ulimit -S -n 100; ulimit -S -c 7; exec "+os.Args[0]+
			" -test.run='^TestOriginal$' -test.v")
		again.Env = append(os.Environ(), inner+"=1")
		out, err := again.CombinedOutput()
		require.NoError(t, err, string(out))
		require.Contains(t, string(out), "found 100 and 3584\n")
		return
	}
	var now syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &now))
	have := limits.Original()
	require.Greater(t, now.Cur, have[syscall.RLIMIT_NOFILE].Soft)
	require.Equal(t, now.Max, have[syscall.RLIMIT_NOFILE].Hard)
	fmt.Println("found", have[syscall.RLIMIT_NOFILE].Soft, "and", have[syscall.RLIMIT_CORE].Soft)
}
