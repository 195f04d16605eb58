package proc

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/executable"
)

// forgetful is the name under which this program does forget and ends.
const forgetful = "forgetful"

// forget prints what is resident of the program's file before its text is let go of, and after.
func forget() {
	for range 2 {
		status, _ := os.ReadFile("/proc/self/status")
		_, rest, _ := strings.Cut(string(status), "RssFile:")
		fmt.Println(strings.Fields(rest)[0])
		ForgetText()
	}
}

// A program whose file has a space in its path, or is there no more, lets go of its text too: what
// it runs on at once comes back, with much around it.
func TestForgetText(t *testing.T) {
	self, err := os.ReadFile("/proc/self/exe")
	require.NoError(t, err)
	for _, removed := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "a program")
		require.NoError(t, executable.Write(path, self))
		cmd := exec.Command(path)
		if removed {
			file, err := os.Open(path)
			require.NoError(t, err)
			defer file.Close()
			require.NoError(t, os.Remove(path))
			cmd.Path, cmd.ExtraFiles = "/proc/self/fd/3", []*os.File{file}
		}
		cmd.Args = []string{forgetful}
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		var before, after int
		_, err = fmt.Sscan(string(out), &before, &after)
		require.NoError(t, err, "%s", out)
		require.Less(t, after, before*9/10, "KiB, removed: %v", removed)
	}
}
