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

// TestRemains requires that remains returns all bytes in a pipe that is still open, without waiting for more.
func TestRemains(t *testing.T) {
	for _, n := range []int{0, 1, 1 << 16} {
		read, write, err := os.Pipe()
		require.NoError(t, err)
		_, err = write.WriteString(strings.Repeat("x", n))
		require.NoError(t, err)
		require.NoError(t, read.SetReadDeadline(time.Unix(1, 0)))
		_, err = read.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Equal(t, strings.Repeat("x", n), string(remains(read)))
		require.NoError(t, write.Close())
		require.Empty(t, remains(read))
		require.NoError(t, read.Close())
	}
}

// TestRefused requires that refused sends the message of a command that does not exist to the host, and returns 127.
func TestRefused(t *testing.T) {
	var sent bytes.Buffer
	_, missing := exec.LookPath("no-such-program")
	code, err := refused(newLine(&sent), job{Command: []string{"no-such-program"}}, missing)
	require.NoError(t, err)
	require.Equal(t, 127, code)
	kind, content, err := newLine(&sent).receive()
	require.NoError(t, err)
	require.Equal(t, "e rdmavm: no-such-program: executable file not found in $PATH\n", string(kind)+" "+string(content))
}
