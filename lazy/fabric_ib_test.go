//go:build ib

package lazy

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/cgo/verbs"
	"ibrun/fabric"
	"ibrun/fabric/ib"
	"ibrun/fabric/udp"
	"ibrun/lazy/peer"
	"ibrun/test/fakeverbs"
	"ibrun/test/rdmavm/inside"
	"ibrun/test/waitfor"
)

// ownVariable names the test that this process was started for.
const ownVariable = "IBRUN_TEST_OWN"

func TestMain(m *testing.M) {
	if os.Getenv(ownVariable) != "" || inside.In() {
		os.Exit(m.Run())
	}
	os.Exit(fakeverbs.Run(m, devices(), func(*fakeverbs.Network) {}))
}

// devices returns a node with two devices.
func devices() (node fakeverbs.Node) {
	for i := range 2 {
		node.Devices = append(node.Devices, fakeverbs.Device{Name: fmt.Sprintf("mlx5_%d", i), GUID: uint64(i + 1),
			Ports: []fakeverbs.Port{{
				LID: uint16(i + 3), SMLID: 1, GIDs: []verbs.GID{{Type: verbs.GIDIB,
					Addr: [16]byte{0: 0xfe, 1: 0x80, 15: byte(i + 1)}}},
			}}})
	}
	return node
}

func overIB(s fabric.Sink) (fabric.Fabric, error) {
	return ib.Open(ib.Config{GIDIndex: -1, QKey: 7}, s)
}

// own runs a test in a process of its own, whose devices may break, and reports whether this is it.
func own(t *testing.T, node fakeverbs.Node, args ...string) bool {
	t.Helper()
	if os.Getenv(ownVariable) == t.Name() {
		return true
	}
	network, err := fakeverbs.Join().Another(t.TempDir())
	require.NoError(t, err)
	cmd := exec.Command(os.Args[0], append([]string{"-test.v", "-test.run", "^" + t.Name() + "$"}, args...)...)
	cmd.Env = append(append(os.Environ(), ownVariable+"="+t.Name()), network.Env(node)...)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: "+t.Name())
	t.Logf("%s", out)
	return false
}

// TestTablesOverInfiniBand runs over InfiniBand the tests that have no label and go over several fabrics.
func TestTablesOverInfiniBand(t *testing.T) {
	before, beforeWires := fabrics, wires
	defer func() { fabrics, wires = before, beforeWires }()
	fabrics = func() map[string]func(fabric.Sink) (fabric.Fabric, error) {
		return map[string]func(fabric.Sink) (fabric.Fabric, error){"ib": overIB}
	}
	wires = fabrics
	for name, test := range map[string]func(*testing.T){
		"BulkMovesToAStream": TestBulkMovesToAStream, "Bundles": TestBundles, "Churn": TestChurn,
		"DeadPeers": TestDeadPeers, "IdleStreamsAreClosed": TestIdleStreamsAreClosed, "LongMessages": TestLongMessages,
		"MessagesArriveOnceInOrder": TestMessagesArriveOnceInOrder, "UpgradeThreshold": TestUpgradeThreshold,
	} {
		t.Run(name, test)
	}
}

// TestSchedulesOverInfiniBand runs random sequences of messages, failures and restarts of ranks over fake InfiniBand
// devices. The devices lose 30 % of the datagrams, including those that set up streams, and duplicate or reorder some
// others. TestOtherPackages of test/ib runs it over Soft-RoCE in a virtual machine, where no datagrams are lost on
// purpose.
func TestSchedulesOverInfiniBand(t *testing.T) {
	node := devices()
	node.Faults = fakeverbs.Faults{Seed: *oneSchedule + 1, Lose: 30, Double: 10, Swap: 10}
	node.QPN = 100 // the lowest free number, so that the next epoch has the queue pair of the one before
	if !inside.In() && !own(t, node, "-test.parallel=15", fmt.Sprintf("-schedules=%d", *schedules),
		fmt.Sprintf("-seed=%d", *oneSchedule)) {
		return
	}
	const together = 15 // they mostly wait
	// Whether a rank that starts again gets its old address is a matter of chance.
	for range 10 {
		at := runSchedules(t, *schedules, together, func(t *testing.T, seed uint64) *schedule {
			s := draw(t, seed, false, overIB)
			s.run()
			return s
		})
		if at > 0 || t.Failed() || inside.In() || *oneSchedule > 0 {
			return
		}
	}
	require.Fail(t, "no rank started again at its old address")
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
	if !own(t, devices()) {
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
	if !own(t, devices()) {
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
		c.Worth = worth(16)
		if rank := c.Rank; rank%2 == 1 {
			c.Open = overEthernet
		} else {
			c.Secondary, c.SecondaryOpened = secondary, func(tuple fabric.Tuple) { w.secondaries[rank] = tuple }
		}
	}
	return w.start()
}

// TestMixed checks that all ranks of four nodes reach each other by datagrams and streams if only two nodes have
// InfiniBand. A pair uses InfiniBand if both nodes have it.
func TestMixed(t *testing.T) {
	w := mixed(t, func(s fabric.Sink) fabric.Fabric {
		f, err := overEthernet(s)
		require.NoError(t, err)
		return f
	})
	ctx := within(t)
	long := bytes.Repeat([]byte("long"), peer.LongMessage)
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

// TestStreamsWithoutMemory: a stream that cannot be made for want of memory to lock is an error
// that says so, on both sides.
func TestStreamsWithoutMemory(t *testing.T) {
	node := devices()
	node.MemLock = 400 << 10 // enough for datagrams
	if !own(t, node) {
		return
	}
	w := newWorld(t, 2, 1, overIB).start()
	for from := range uint32(2) {
		err := w.table(from).Send(within(t), 1-from, make([]byte, 300_000))
		require.ErrorContains(t, err, "a message of 300000 bytes needs a stream, and none could be made: ")
		require.Regexp(t, "locked memory is (not )?limited", err.Error())
	}
}

// ported is a world of two nodes at ports of their own, with Ethernet beside them. Ranks 0 and 1
// are at mlx5_0 and mlx5_1.
func ported(t *testing.T, second bool) (w *world, changed chan error) {
	w = newWorld(t, 2, 1, nil)
	w.secondaries = map[uint32]fabric.Tuple{}
	changed = make(chan error, 100)
	w.config = func(c *Config) {
		rank := c.Rank
		c.Worth, c.Hold = worth(16), 50*time.Millisecond
		c.Open = func(s fabric.Sink) (fabric.Fabric, error) {
			return ib.Open(ib.Config{Port: portOf(rank), GIDIndex: -1, QKey: 7, PortGrace: 100 * time.Millisecond}, s)
		}
		if second {
			c.Secondary = func(s fabric.Sink) fabric.Fabric {
				f, err := overEthernet(s)
				require.NoError(t, err)
				return f
			}
			c.SecondaryOpened = func(tuple fabric.Tuple) { w.secondaries[rank] = tuple }
			c.Changed = func(err error) { changed <- err }
		}
	}
	return w.start(), changed
}

// command tells the made-up devices something.
func command(t *testing.T, words string) {
	t.Helper()
	_, err := fakeverbs.Join().Order(words)
	require.NoError(t, err)
}

// portOf is the port of a rank, and turn sets its link: that of the made-up device, or of the
// interface below Soft-RoCE.
func portOf(rank uint32) string {
	if inside.In() {
		return fmt.Sprintf("rxe%d", rank)
	}
	return fmt.Sprintf("mlx5_%d", rank)
}

func turn(t *testing.T, rank uint32, up bool) {
	t.Helper()
	if inside.In() {
		way := map[bool]string{false: "down", true: "up"}[up]
		out, err := exec.Command("ip", "link", "set", fmt.Sprintf("eth%d", rank), way).CombinedOutput()
		require.NoError(t, err, "%s", out)
		return
	}
	command(t, fmt.Sprintf("port %s 1 %s", portOf(rank), map[bool]string{false: "down", true: "active"}[up]))
}

// bySecond reports how a rank sends to the other one.
func (t *Table) bySecond(rank uint32) bool {
	t.fmu.Lock()
	defer t.fmu.Unlock()
	return t.remotePeer(rank).peer.Secondary()
}

// path is how far a rank's change of the network is, in words.
func (t *Table) path(rank uint32) string {
	t.fmu.Lock()
	defer t.fmu.Unlock()
	p := t.remotePeer(rank).peer
	first, second := p.Addresses()
	return fmt.Sprintf("rank %d: own port %v, change %d, by %v, first %v, second %v", t.cfg.Rank, t.down,
		p.Moves(), p.Address(), first, second)
}

// TestPortFails: two ranks talk without a pause, in messages of all lengths, while the port of
// either goes down and comes back. Each message arrives once and in order, by Ethernet meanwhile
// and by InfiniBand again.
func TestPortFails(t *testing.T) {
	if !inside.In() && !own(t, devices()) {
		return
	}
	w, changed := ported(t, true)
	ctx := within(t)
	const moves = 6
	sizes := []int{10, 200, 3000, 20_000, 100, 300, 70_000, 40}
	over := make(chan struct{})
	var talkers sync.WaitGroup
	for me := range uint32(2) {
		talkers.Go(func() {
			for n := uint32(0); ; n++ {
				m := payload(me, 1-me, n, sizes[n%8])
				select {
				case <-over:
					m = []byte("over")
				case <-time.After(time.Millisecond): // the ports change many times while this goes on
				}
				if err := w.table(me).Send(ctx, 1-me, m); err != nil {
					t.Errorf("%d to %d, message %d: %v", me, 1-me, n, err)
				}
				if len(m) == len("over") || t.Failed() {
					return
				}
			}
		})
		talkers.Go(func() {
			for n := uint32(0); ; n++ {
				m, err := w.table(1-me).RecvFrom(ctx, me)
				if err == nil && string(m.Body) == "over" {
					return
				}
				if err != nil || !bytes.Equal(m.Body, payload(me, 1-me, n, sizes[n%8])) {
					t.Errorf("%d to %d, message %d: %v", me, 1-me, n, err)
					return
				}
			}
		})
	}
	there := func(second bool) {
		t.Helper()
		err := waitfor.True(func() bool {
			return t.Failed() || w.table(0).bySecond(1) == second && w.table(1).bySecond(0) == second
		})
		require.NoError(t, err, "second %v: %s; %s", second, w.table(0).path(1), w.table(1).path(0))
	}
	for move := range moves {
		turn(t, uint32(move%2), false)
		require.ErrorContains(t, <-changed, fmt.Sprintf("port %s:1", portOf(uint32(move%2))))
		there(true)
		turn(t, uint32(move%2), true)
		require.NoError(t, <-changed)
		there(false)
	}
	close(over)
	talkers.Wait()
	for me := range uint32(2) {
		require.NoError(t, w.table(me).Flush(ctx))
	}
}

// TestOnlyPortFails: a rank that has nothing beside InfiniBand is told which port has failed.
func TestOnlyPortFails(t *testing.T) {
	if !inside.In() && !own(t, devices()) {
		return
	}
	w, _ := ported(t, false)
	ctx := within(t)
	require.NoError(t, w.table(0).Send(ctx, 1, []byte("x")))
	_, err := w.table(1).Recv(ctx)
	require.NoError(t, err)
	failed := waiters(ctx, w.table(0), 1)
	turn(t, 0, false)
	defer turn(t, 0, true)
	const want = "port %s:1"
	for range 2 {
		require.ErrorContains(t, <-failed, fmt.Sprintf(want, portOf(0)))
	}
	require.ErrorContains(t, w.table(0).Send(ctx, 1, []byte("x")), fmt.Sprintf(want, portOf(0)))
}
