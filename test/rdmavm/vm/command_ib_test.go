//go:build ib

package vm

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestRemains requires that readAvailable returns all bytes of a pipe that is still open, and does not wait for more.
func TestRemains(t *testing.T) {
	for _, n := range []int{0, 1, 1 << 16} {
		read, write, err := os.Pipe()
		require.NoError(t, err)
		_, err = write.WriteString(strings.Repeat("x", n))
		require.NoError(t, err)
		require.NoError(t, read.SetReadDeadline(time.Unix(1, 0)))
		_, err = read.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Equal(t, strings.Repeat("x", n), string(readAvailable(read)))
		require.NoError(t, write.Close())
		require.Empty(t, readAvailable(read))
		require.NoError(t, read.Close())
	}
}

// TestRefused requires that reportStartError sends a message and returns 127 for a command that does not exist.
func TestRefused(t *testing.T) {
	var sent bytes.Buffer
	_, missing := exec.LookPath("no-such-program")
	code, err := reportStartError(newLine(&sent), job{Command: []string{"no-such-program"}}, missing)
	require.NoError(t, err)
	require.Equal(t, 127, code)
	kind, content, err := newLine(&sent).receive()
	require.NoError(t, err)
	require.Equal(t, "e rdmavm: no-such-program: executable file not found in $PATH\n", string(kind)+" "+string(content))
}
