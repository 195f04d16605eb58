package remote

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/build"
	"ibrun/test/waitfor"
)

// What a far side does to be told how, and to be sent the binary.
var (
	need = fmt.Sprintf("echo '%s%s::'; read -r s; ", needMark, build.Machine())
	send = fmt.Sprintf("echo '%s::'; ", sendMark)
)

// A node is sent the binary once, and again if its copy is not what was sent.
func TestCopyIsRepaired(t *testing.T) {
	n := newNode(t, "/bin/sh", "", waitfor.Deadline)
	require.Equal(t, shipped, n.launch(t))
	require.Equal(t, found, n.launch(t))
	require.NoError(t, os.Truncate(n.cached(), 1000))
	require.Equal(t, shipped, n.launch(t))
	require.Empty(t, left(t, n.cache()))
	require.Empty(t, left(t, n.tmp))
}
