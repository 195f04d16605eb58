package hosts

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFiles(t *testing.T) {
	hydra, openMPI, err := Files(t.TempDir(), Names(2), 16)
	require.NoError(t, err)
	for path, want := range map[string]string{
		hydra: "node0001:16\nnode0002:16\n", openMPI: "node0001 slots=16\nnode0002 slots=16\n",
	} {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, want, string(text))
	}
}

const laggingRole = "lagging"

func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == laggingRole {
		fmt.Fprintln(os.Stderr, Lag(os.Args[2], "/bin/sh", os.Args[3:]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// A process that lags becomes the program.
func TestLag(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	out, err := exec.Command(self, laggingRole, "30ms", "sh", "-c", "echo a; exit 3").Output()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 3, exit.ExitCode())
	require.Equal(t, "a\n", string(out))
	require.Error(t, Lag("soon", "/bin/sh", nil))
}
