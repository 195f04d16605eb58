package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A file that gives what it has and then nothing, without an end, as /proc/kmsg
// does: a pipe is one that is not known to be a pipe.
func TestFileWithoutEnd(t *testing.T) {
	var fds [2]int
	require.NoError(t, unix.Pipe2(fds[:], unix.O_NONBLOCK|unix.O_CLOEXEC))
	defer unix.Close(fds[0])
	_, err := unix.Write(fds[1], []byte("a\n"))
	require.NoError(t, err)
	_, err = text{name: "f", fd: fds[0]}.read()
	require.EqualError(t, err, "f has no end: is it the right file?")
	unix.Close(fds[1])
	content, err := text{name: "f", fd: fds[0], pipe: true}.read()
	require.NoError(t, err)
	require.Empty(t, content)
}
