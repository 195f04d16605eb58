//go:build cgo && !noib

package lazy

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/cgo/verbs"
	"ibrun/fabric"
	"ibrun/fabric/ib"
	"ibrun/fabric/udp"
	"ibrun/lazy/upgrade"
	"ibrun/test/fakeverbs"
	"ibrun/test/rdmavm/inside"
)

// fakeLibrary puts a made-up device into the environment, once for the process.
var fakeLibrary = sync.OnceValue(func() error {
	dir, err := os.MkdirTemp("", "fakeverbs")
	if err != nil {
		return err
	}
	n, err := fakeverbs.New(dir)
	if err != nil {
		return err
	}
	node := fakeverbs.Node{}
	for i := range 2 {
		node.Devices = append(node.Devices, fakeverbs.Device{Name: fmt.Sprintf("mlx5_%d", i), GUID: uint64(i + 1),
			Ports: []fakeverbs.Port{{
				LID: uint16(i + 3), SMLID: 1, GIDs: []verbs.GID{{Type: verbs.GIDIB,
					Addr: [16]byte{0: 0xfe, 1: 0x80, 15: byte(i + 1)}}},
			}}})
	}
	if os.Getenv(ownVariable) == scheduleTest {
		node.Faults = fakeverbs.Faults{Seed: *oneSchedule + 1, Lose: 30, Double: 10, Swap: 10}
		node.QPN = 100 // the lowest free number, so that the next epoch has the queue pair of the one before
	}
	if os.Getenv(ownVariable) == memoryTest {
		node.MemLock = 400 << 10 // enough for datagrams
	}
	for _, v := range n.Env(node) {
		name, value, _ := strings.Cut(v, "=")
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	removeLater = append(removeLater, dir)
	return nil
})

func overIB(s fabric.Sink) (fabric.Fabric, error) {
	if !inside.In() {
		if err := fakeLibrary(); err != nil {
			return nil, err
		}
	}
	return ib.Open(ib.Config{GIDIndex: -1, QKey: 7}, s)
}

func init() { more["ib"] = overIB }

// ownVariable names the test that this process was started for.
const ownVariable = "IBRUN_TEST_OWN"

// own runs a test in a process of its own, whose device may break, and reports whether this is it.
func own(t *testing.T, args ...string) bool {
	t.Helper()
	if os.Getenv(ownVariable) == t.Name() {
		return true
	}
	cmd := exec.Command(os.Args[0], append([]string{"-test.v", "-test.run", "^" + t.Name() + "$"}, args...)...)
	cmd.Env = append(os.Environ(), ownVariable+"="+t.Name())
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: "+t.Name())
	t.Logf("%s", out)
	return false
}

const scheduleTest = "TestSchedulesOverInfiniBand"

// TestSchedulesOverInfiniBand runs the schedules in a process where 30 % of the datagrams are lost,
// those that make streams included, and others come twice or late. In a machine with Soft-RoCE the
// network is what it is.
func TestSchedulesOverInfiniBand(t *testing.T) {
	if !inside.In() && !own(t, "-test.parallel=15", fmt.Sprintf("-schedules=%d", *schedules),
		fmt.Sprintf("-seed=%d", *oneSchedule)) {
		return
	}
	const together = 15 // they mostly wait
	at := runSchedules(t, *schedules, together, func(t *testing.T, seed uint64) *schedule {
		s := draw(t, seed, false, overIB)
		s.run()
		return s
	})
	require.True(t, at > 0 || inside.In() || *oneSchedule > 0)
}

// waiters are receivers of a rank that waits for another, and for any.
func waiters(ctx context.Context, table *Table, from uint32) <-chan error {
	failed := make(chan error, 2)
	go func() { _, err := table.RecvFrom(ctx, from); failed <- err }()
	go func() { _, err := table.Recv(ctx); failed <- err }()
	return failed
}

// TestBrokenDevice: who only waits for messages is told, too, and so is who comes later.
func TestBrokenDevice(t *testing.T) {
	if !own(t) {
		return
	}
	w := newWorld(t, 3, 1, overIB).start()
	ctx := within(t)
	require.NoError(t, w.table(1).Send(ctx, 0, []byte("x")))
	_, err := w.table(0).Recv(ctx)
	require.NoError(t, err)
	failed := waiters(ctx, w.table(0), 1)
	_, err = fakeverbs.Join().Order("fatal mlx5_0")
	require.NoError(t, err)
	for range 2 {
		require.ErrorContains(t, <-failed, "mlx5_0: device failed")
	}
	for _, to := range []uint32{1, 2} {
		require.ErrorContains(t, w.table(0).Send(ctx, to, []byte("x")),
			fmt.Sprintf("rank %d: ib: mlx5_0: device failed", to))
	}
}

// TestBrokenStream: a queue pair that fails in the middle of a stream is an error on both sides,
// also for who sends nothing on it; other pairs go on.
func TestBrokenStream(t *testing.T) {
	if !own(t) {
		return
	}
	w := newWorld(t, 3, 1, overIB)
	w.config = func(c *Config) {
		if c.Streams = c.Rank < 2; c.Rank == 1 {
			c.Open = func(s fabric.Sink) (fabric.Fabric, error) {
				return ib.Open(ib.Config{Port: "mlx5_1", GIDIndex: -1, QKey: 7}, s)
			}
		}
	}
	w.start()
	ctx := within(t)
	require.NoError(t, w.table(0).Send(ctx, 1, []byte("x")))
	_, err := w.table(1).Recv(ctx)
	require.NoError(t, err)
	// Rank 1's fails; rank 0 only receives, and its own queue pair does not hear of that.
	failed := make(chan error, 1)
	go func() { _, err := w.table(0).RecvFrom(ctx, 1); failed <- err }()
	// Those after the one for datagrams are for streams; other ranks of this process take numbers
	// in between.
	for n := range uint32(32) {
		_, err = fakeverbs.Join().Order(fmt.Sprintf("qp mlx5_1 %d", w.table(1).Tuple().Num+1+n))
		require.NoError(t, err)
	}
	for err == nil {
		err = w.table(1).Send(ctx, 0, make([]byte, 100))
	}
	require.ErrorContains(t, err, "rank 0: ib: queue pair")
	require.EqualError(t, <-failed, "rank 1: the stream failed on its side")
	require.NoError(t, w.table(0).Send(ctx, 2, []byte("y")))
	m, err := w.table(2).Recv(ctx)
	require.NoError(t, err)
	require.Equal(t, "y", string(m.Body))
}

// overEthernet is a node without InfiniBand.
func overEthernet(s fabric.Sink) (fabric.Fabric, error) {
	return udp.Open(udp.Config{Addr: netip.MustParseAddr("127.0.0.1"), MTU: 1500,
		Instead: "/dev/infiniband is not there"}, s)
}

// mixed is a world of four nodes, of which two have InfiniBand, and Ethernet
// as the secondary fabric unless secondary is nil.
func mixed(t *testing.T, secondary func(fabric.Sink) fabric.Fabric) *world {
	w := newWorld(t, 4, 1, overIB)
	w.secondaries = map[uint32]fabric.Tuple{}
	w.config = func(c *Config) {
		c.UpgradeThreshold = 16
		if rank := c.Rank; rank%2 == 1 {
			c.Open = overEthernet
		} else {
			c.Secondary, c.SecondaryOpened = secondary, func(tuple fabric.Tuple) { w.secondaries[rank] = tuple }
		}
	}
	return w.start()
}

// TestMixed: of four nodes two have InfiniBand. Everybody reaches everybody, whoever is first: over
// InfiniBand where both have it, by datagrams and by streams.
func TestMixed(t *testing.T) {
	w := mixed(t, func(s fabric.Sink) fabric.Fabric {
		f, err := overEthernet(s)
		require.NoError(t, err)
		return f
	})
	ctx := within(t)
	long := bytes.Repeat([]byte("long"), upgrade.LongMessage)
	for from := range uint32(4) { // the first of a pair is, by turns, on either side
		for n := range uint32(40) {
			for to := range uint32(4) {
				if from == to {
					continue
				}
				text := fmt.Appendf(nil, "%d to %d, %d", from, to, n)
				if n == 30 {
					text = long
				}
				require.NoError(t, w.table(from).Send(ctx, to, text))
				m, err := w.table(to).RecvFrom(ctx, from)
				require.NoError(t, err)
				require.True(t, bytes.Equal(text, m.Body))
			}
		}
	}
	for rank := range uint32(4) {
		table := w.table(rank)
		require.NoError(t, table.Flush(ctx))
		for _, f := range table.fars {
			both := rank%2 == 0 && f.rank%2 == 0
			require.Equal(t, !both, f.peer.Address().Kind.Ethernet(), "%d to %d: %v", rank, f.rank, f.peer.Address())
			require.NotNil(t, f.stream, "%d to %d", rank, f.rank)
		}
	}
}

// TestMixedApart: where a node with InfiniBand has nothing besides, each side is told at once where
// both are, and what to do; nobody waits for an answer that cannot come.
func TestMixedApart(t *testing.T) {
	w := mixed(t, func(fabric.Sink) fabric.Fabric { return nil })
	ctx := within(t)
	for me, want := range []string{
		`^rank 1: ib: its node goes by Ethernet \(127\.0\.0\.1\), having no InfiniBand or RoCE that works, and port ` +
			`mlx5_0:1 of this node by InfiniBand \(LID 3\): use --fabric udp for all`,
		`^rank 0: udp: its node goes by InfiniBand or RoCE \(lid 3 qpn \d+\), and this one by Ethernet ` +
			`\(127\.0\.0\.1\), since /dev/infiniband is not there: use --fabric udp for all`,
	} {
		table, other := w.table(uint32(me)), uint32(1-me)
		waits := make(chan error, 1)
		go func() { _, err := table.RecvFrom(ctx, other); waits <- err }()
		err := table.Send(ctx, other, []byte("x"))
		if err == nil {
			err = table.Flush(ctx)
		}
		require.Regexp(t, want, err.Error())
		require.Regexp(t, want, (<-waits).Error())
	}
}

const memoryTest = "TestStreamsWithoutMemory"

// TestStreamsWithoutMemory: a stream that cannot be made for want of memory to lock is an error
// that says so, on both sides.
func TestStreamsWithoutMemory(t *testing.T) {
	if !own(t) {
		return
	}
	w := newWorld(t, 2, 1, overIB).start()
	for from := range uint32(2) {
		err := w.table(from).Send(within(t), 1-from, make([]byte, 300_000))
		require.ErrorContains(t, err, "a message of 300000 bytes needs a stream, and none could be made: ")
		require.Regexp(t, "locked memory is (not )?limited", err.Error())
	}
}
