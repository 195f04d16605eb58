//go:build ib

package ib

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/fabric"
	"ibrun/fabric/fabrictest"
)

// asking opens an endpoint that asks for service levels, and answers instead of the kernel.
func asking(t *testing.T, port string, answer func([16]byte) (uint8, error)) (*Fabric, *fabrictest.Box) {
	t.Helper()
	cfg := config(port)
	cfg.AskSL, cfg.SL, cfg.Rank, cfg.records = true, 9, 1, Source{Device: os.DevNull}
	f, x := openAt(t, cfg)
	f.levels = newLevels(f.ending, func(_ context.Context, to [16]byte) (uint8, error) { return answer(to) })
	return f, x
}

// TestServiceLevelOfPath: each way has the level that is given for it, in address handles and in
// both queue pairs of a stream, and is asked for once. Until it is known datagrams are lost, which
// their sender repeats.
func TestServiceLevelOfPath(t *testing.T) {
	lines, here := logged(t, masks())
	if !here {
		return
	}
	var asked atomic.Int32
	open := make(chan struct{})
	a, _ := asking(t, "mlx5_0", func(to [16]byte) (uint8, error) {
		asked.Add(1)
		<-open
		return 3 + to[15], nil // 5 to the second port
	})
	b, x := asking(t, "mlx5_1", func(to [16]byte) (uint8, error) { return 3 + to[15], nil })
	require.Equal(t, fabric.IBGID, a.Tuple().Kind, "a record is asked for by GID")
	for range 5 {
		require.NoError(t, a.Post(b.Tuple(), []byte("too soon")))
	}
	require.EqualValues(t, 5, a.Counters().Lost)
	require.Empty(t, lines("ah", "mlx5_0"))
	close(open)
	require.Eventually(t, func() bool {
		return a.Post(b.Tuple(), []byte("known")) == nil && a.Counters().Sent > 0
	}, patience, time.Millisecond)
	require.True(t, x.Has("known"))
	near, far := dialled(t, a, b, x)
	passes(t, near, far, "at its level")
	near, far = dialled(t, a, b, x)
	passes(t, near, far, "and another")
	require.EqualValues(t, 1, asked.Load())
	require.Equal(t, []string{"5"}, values(append(lines("ah", "mlx5_0"), lines("rtr", "mlx5_0")...), "sl"))
	require.Equal(t, []string{"4"}, values(append(lines("ah", "mlx5_1"), lines("rtr", "mlx5_1")...), "sl"))
	require.Equal(t, []string{"0"}, values(append(lines("ah", "mlx5_0"), lines("rtr", "mlx5_0")...), "src_path_bits"),
		"the record is of the first LIDs")
}

// TestNoPathRecord: who cannot be told a level says why, and asks again later.
func TestNoPathRecord(t *testing.T) {
	var works atomic.Bool
	lost := errors.New("ib: no path record")
	a, _ := asking(t, "mlx5_0", func([16]byte) (uint8, error) {
		if works.Load() {
			return 1, nil
		}
		return 0, lost
	})
	b, x := asking(t, "mlx5_0", func([16]byte) (uint8, error) { return 1, nil })
	fails := func() bool { return errors.Is(a.Post(b.Tuple(), []byte("x")), lost) }
	require.Eventually(t, fails, patience, time.Millisecond)
	_, err := dial(t, a, b)
	require.ErrorIs(t, err, lost)
	works.Store(true)
	again := func() bool { return a.Post(b.Tuple(), []byte("again")) == nil && a.Counters().Sent > 0 }
	require.Eventually(t, again, patience, 10*time.Millisecond)
	require.True(t, x.Has("again"))

	to := b.Tuple()
	to.Kind = fabric.IB
	_, err = a.levels.now(to)
	require.EqualError(t, err,
		"ib: its address has no GID to ask the subnet manager about: give all ranks the same --sl")
}

// TestCannotAsk: what is missing is said before the first message.
func TestCannotAsk(t *testing.T) {
	cfg := config("mlx5_0")
	cfg.AskSL, cfg.records = true, Source{Device: "/dev/infiniband/missing"}
	_, err := Open(cfg, fabrictest.NewBox())
	require.EqualError(t, err, "ib: port mlx5_0:1: --sl path needs the kernel's connection manager: open "+
		"/dev/infiniband/missing: no such file or directory: as root, modprobe rdma_ucm; or write --sl N")
	cfg.Port = "roce0"
	f, err := Open(cfg, fabrictest.NewBox()) // there is no subnet manager to ask
	require.NoError(t, err)
	require.NoError(t, f.Close())
}
