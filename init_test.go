package ibrun_test

import (
	"context"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ibrun"
	"ibrun/test/waitfor"
)

func TestInitTwice(t *testing.T) {
	defer ibrun.OnlyOnce()()
	w, err := ibrun.Init(t.Context())
	require.NoError(t, err)
	second, err := ibrun.Init(t.Context())
	require.ErrorIs(t, err, ibrun.ErrInitialized)
	require.Nil(t, second)
	require.NoError(t, w.Barrier(t.Context()), "the first world is not affected")
	require.NoError(t, w.Finalize(t.Context()))
	_, err = ibrun.Init(t.Context())
	require.ErrorIs(t, err, ibrun.ErrInitialized, "also after Finalize")
}

// silentAgent makes this process look like a rank whose agent never answers.
func silentAgent(t *testing.T) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { unix.Close(ends[0]) }) // Init takes the other end
	t.Setenv("IBRUN_FD", strconv.Itoa(ends[1]))
}

func TestInitHonoursItsContext(t *testing.T) {
	silentAgent(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := ibrun.Init(ctx)
		ended <- err
	}()
	waitfor.Require(t, "Init takes the descriptor of its agent", func() bool { return os.Getenv("IBRUN_FD") == "" })
	cancel()
	require.ErrorIs(t, waitfor.Receive(t, ended), context.Canceled)

	silentAgent(t)
	_, err := ibrun.Init(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.NotEmpty(t, os.Getenv("IBRUN_FD"), "the context has ended before, and the agent can be used")
}
