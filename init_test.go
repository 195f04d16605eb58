package ibrun_test

import (
	"context"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ibrun"
)

// patience is how long a test waits for what must happen.
const patience = 2 * time.Minute

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
	for name, c := range map[string]struct {
		context func() (context.Context, context.CancelFunc)
		want    error
		taken   bool // the descriptor of the agent
	}{
		"ends meanwhile": {func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(t.Context(), 20*time.Millisecond)
		}, context.DeadlineExceeded, true},
		"ended before": {func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			return ctx, cancel
		}, context.Canceled, false},
	} {
		t.Run(name, func(t *testing.T) {
			silentAgent(t)
			ctx, cancel := c.context()
			defer cancel()
			ended := make(chan error, 1)
			go func() {
				_, err := ibrun.Init(ctx)
				ended <- err
			}()
			select {
			case err := <-ended:
				require.ErrorIs(t, err, c.want)
			case <-time.After(patience):
				t.Fatal("Init does not return although its context has ended")
			}
			require.Equal(t, c.taken, os.Getenv("IBRUN_FD") == "")
		})
	}
}
