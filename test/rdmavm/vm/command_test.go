package vm

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestRemains takes from a pipe that others hold open what it has, however much, and does not wait
// for more.
func TestRemains(t *testing.T) {
	for _, n := range []int{0, 1, 1 << 16} {
		read, write, err := os.Pipe()
		require.NoError(t, err)
		_, err = write.WriteString(strings.Repeat("x", n))
		require.NoError(t, err)
		require.NoError(t, read.SetReadDeadline(time.Now()))
		_, err = read.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Equal(t, strings.Repeat("x", n), string(remains(read)))
		require.NoError(t, write.Close())
		require.Empty(t, remains(read))
		require.NoError(t, read.Close())
	}
}
