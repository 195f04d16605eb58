package remote

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/build"
	"ibrun/internal/waitfor"
)

// What a far side does to be told how, and to be sent the binary.
var (
	need = fmt.Sprintf("echo '%s%s::'; read -r s; ", needMark, build.Machine())
	send = fmt.Sprintf("echo '%s::'; ", sendMark)
)

// What the far side says while it is written to is read.
func TestFailureWhileShipping(t *testing.T) {
	script := need + send + fmt.Sprintf("echo '%sthe disk is full::'", failMark)
	_, err := fake(t, script, waitfor.Deadline).Start(context.Background(), Target{Host: "h"}, func(Phase) {})
	require.ErrorContains(t, err, "h: ship: the disk is full")
}

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
