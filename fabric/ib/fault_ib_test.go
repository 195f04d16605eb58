//go:build ib

package ib

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/cgo/verbs"
	"ibrun/fabric"
	"ibrun/fabric/fabrictest"
	"ibrun/test/fakeverbs"
)

// aloneVariable names the test that a process was started for.
const aloneVariable = "IBRUN_TEST_ALONE"

// alone runs a test in a process of its own, with the devices of another node, and reports whether
// this is it.
func alone(t *testing.T, node fakeverbs.Node) bool {
	t.Helper()
	if os.Getenv(aloneVariable) == t.Name() {
		return true
	}
	own, err := network.Another(t.TempDir())
	require.NoError(t, err)
	words := strings.Split(t.Name(), "/")
	cmd := exec.Command(os.Args[0], "-test.v", "-test.run", "^"+strings.Join(words, "$/^")+"$")
	cmd.Env = append(append(os.Environ(), aloneVariable+"="+t.Name()), own.Env(node)...)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: "+t.Name())
	return false
}

// fdr is a node with an FDR HCA of two ports, the second without a cable, and a peer of it in the
// same subnet.
func fdr() fakeverbs.Node {
	guid := func(last byte) []verbs.GID {
		return []verbs.GID{{Type: verbs.GIDIB, Addr: [16]byte{0: 0xfe, 1: 0x80, 9: 2, 10: 0xc9, 11: 3, 13: 0xf9,
			14: 0xbf, 15: last}}}
	}
	return fakeverbs.Node{Devices: []fakeverbs.Device{
		{Name: "mlx4_0", GUID: 0x0002c90300f9bfa0, Ports: []fakeverbs.Port{
			{LID: 0x3a4, SMLID: 1, GIDs: guid(0xa1), PKeys: []uint16{0xffff, 0x8005}},
			{State: verbs.PortDown, GIDs: guid(0xa2)},
		}},
		{Name: "mlx4_1", GUID: 0x0002c90300f9bfb0, Ports: []fakeverbs.Port{
			{LID: 0x2b0, SMLID: 1, LMC: 1, MTU: verbs.MTU2048, GIDs: guid(0xb1), PKeys: []uint16{0xffff, 0x8005}},
		}},
	}}
}

func openAt(t *testing.T, cfg Config) (*Fabric, *fabrictest.Box) {
	t.Helper()
	x := fabrictest.NewBox()
	f, err := Open(cfg, x)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return f, x
}

// dial makes a stream from a to b.
func dial(t *testing.T, a, b *Fabric) (fabric.Stream, error) {
	t.Helper()
	offer, err := b.Offer()
	require.NoError(t, err)
	return a.Dial(t.Context(), b.Tuple(), offer)
}

func dialled(t *testing.T, a, b *Fabric, x *fabrictest.Box) (near, far *stream) {
	t.Helper()
	s, err := dial(t, a, b)
	require.NoError(t, err)
	near, far = s.(*stream), x.Stream(t).(*stream)
	t.Cleanup(func() { near.Close(); far.Close() })
	return near, far
}

// TestLIDs goes from the subnet manager's LIDs to the fields of address handle and connection, as
// the library is told them.
func TestLIDs(t *testing.T) {
	lines, here := logged(t, fdr())
	if !here {
		return
	}
	a, _ := openAt(t, Config{Port: "mlx4_0", GIDIndex: -1, SL: 2, PKey: 5})
	b, x := openAt(t, Config{Port: "mlx4_1:1", GIDIndex: -1, SL: 2, PKey: 5})
	require.Equal(t, fabric.Tuple{Kind: fabric.IB, LID: 0x3a4, Num: a.Tuple().Num}, a.Tuple())
	require.Len(t, a.Tuple().Append(nil), 6)
	near, far := dialled(t, a, b, x)
	passes(t, near, far, "by LID")
	log := strings.Join(slices.Concat(lines("ah", "mlx4_0"), lines("ah", "mlx4_1"), lines("rtr", "mlx4_0"),
		lines("rtr", "mlx4_1")), "")
	require.Regexp(t, `ah dev=mlx4_0 port=1 dlid=688 sl=2 src_path_bits=0 static_rate=0 is_global=0 .*refused=0`, log)
	require.Regexp(t, `ah dev=mlx4_1 port=1 dlid=932 sl=2 src_path_bits=0 static_rate=0 is_global=0 .*refused=0`, log)
	for _, way := range []string{
		fmt.Sprintf("rtr dev=mlx4_0 qpn=%d dest_qpn=%d dlid=688 sl=2", near.mine.qpn, near.theirs.qpn),
		fmt.Sprintf("rtr dev=mlx4_1 qpn=%d dest_qpn=%d dlid=932 sl=2", far.mine.qpn, far.theirs.qpn),
	} {
		require.Contains(t, log, way)
	}
	require.Equal(t, 2, strings.Count(log, "path_mtu=4"), "2048, the lower of both: %s", log)
	_, err := Open(Config{Port: "mlx4_0:2", GIDIndex: -1}, x)
	require.EqualError(t, err, "ib: port mlx4_0:2 is down: see ibstat mlx4_0, or choose another with --hca")
}

// TestPartition: ports of different partitions do not hear each other.
func TestPartition(t *testing.T) {
	if !alone(t, fdr()) {
		return
	}
	a, _ := openAt(t, Config{Port: "mlx4_0", GIDIndex: -1, DialTimeout: 200 * time.Millisecond})
	b, _ := openAt(t, Config{Port: "mlx4_1", GIDIndex: -1, PKey: 5})
	_, err := dial(t, a, b)
	require.ErrorContains(t, err, "no answer")
}

// TestSubnets: three ports, of which two are in one subnet that has a prefix of its own. These
// reach each other by LID; the third is told why it does not, and so are they.
func TestSubnets(t *testing.T) {
	node := fakeverbs.Node{}
	for i, subnet := range []byte{0x80, 0xc0, 0xc0} {
		node.Devices = append(node.Devices, fakeverbs.Device{Name: fmt.Sprintf("mlx5_%d", i), GUID: uint64(i + 1),
			Ports: []fakeverbs.Port{{
				LID: uint16(5 + i), SMLID: 1, GIDs: []verbs.GID{{Type: verbs.GIDIB,
					Addr: [16]byte{0: 0xfe, 1: subnet, 15: byte(i + 1)}}},
			}}})
	}
	if !alone(t, node) {
		return
	}
	a, _ := openAt(t, config("mlx5_0"))
	b, heard := openAt(t, config("mlx5_1"))
	c, x := openAt(t, config("mlx5_2"))
	near, far := dialled(t, b, c, x)
	passes(t, near, far, "in one subnet")
	require.NoError(t, c.Post(b.Tuple(), []byte("a datagram")))
	require.True(t, heard.Has("a datagram"))
	_, err := dial(t, a, c)
	require.ErrorContains(t, err,
		"its port (LID 7) is in subnet fec0000000000000, and port mlx5_0:1 of this node (LID 5) in fe80000000000000")
	require.Equal(t, err, a.Post(c.Tuple(), []byte("x")))
	require.ErrorContains(t, c.Post(a.Tuple(), []byte("x")), "its port (LID 5) is in subnet fe80000000000000")
}

// TestCannotOpen: what is missing is said in one line, with what to do.
func TestCannotOpen(t *testing.T) {
	with := func(change func(*fakeverbs.Node)) fakeverbs.Node {
		n := machine()
		change(&n)
		return n
	}
	for name, c := range map[string]struct {
		node fakeverbs.Node
		cfg  Config
		want string
	}{
		"no device": {with(func(n *fakeverbs.Node) { n.Devices = nil }), Config{GIDIndex: -1},
			"ib: this node has no InfiniBand device: see /sys/class/infiniband, or use --fabric udp"},
		"another": {machine(), Config{Port: "mlx5_7", GIDIndex: -1},
			"ib: this node has no device mlx5_7: it has [mlx5_0 roce0]; choose one with --hca"},
		"another port": {machine(), Config{Port: "mlx5_0:2", GIDIndex: -1}, "ib: mlx5_0 has no port 2: it has 1"},
		"no permission": {with(func(n *fakeverbs.Node) { n.Open = int(syscall.EACCES) }), Config{GIDIndex: -1},
			"permission denied: ls -l /dev/infiniband"},
		"memlock": {with(func(n *fakeverbs.Node) { n.MemLock = 16 << 10 }), Config{GIDIndex: -1},
			"locked memory is"},
		"pkey": {machine(), Config{GIDIndex: -1, PKey: 0x8123},
			"port mlx5_0:1 is not in partition 0x8123: it has 0xffff"},
		"gid index": {machine(), Config{Port: "roce0",
			GIDIndex: 9}, "port roce0:1 has no GID at index 9"},
		"service level": {machine(), Config{GIDIndex: -1, SL: 16}, "service level 16: 0 to 15"},
		"mtu": {with(func(n *fakeverbs.Node) { n.Devices[0].Ports[0].MTU = verbs.MTU512 }),
			Config{Port: "mlx5_0", GIDIndex: -1}, "has an MTU of 512 bytes, and 1024 are needed"},
		"port down": {
			with(func(n *fakeverbs.Node) { n.Devices = n.Devices[:1]; n.Devices[0].Ports[0].State = verbs.PortDown }),
			Config{GIDIndex: -1}, "port mlx5_0:1 is down: see ibstat mlx5_0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if !alone(t, c.node) {
				return
			}
			_, err := Open(c.cfg, fabrictest.NewBox())
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "\n")
		})
	}
}

// TestLittleMemory: where long writes cannot be registered, they go through buffers.
func TestLittleMemory(t *testing.T) {
	node := machine()
	node.MemLock = 1200 << 10
	if !alone(t, node) {
		return
	}
	a, _ := openAt(t, config("mlx5_0"))
	b, x := openAt(t, config("mlx5_0"))
	near, far := dialled(t, a, b, x)
	want := bytes.Repeat([]byte("0123456789abcde"), 1<<18)
	go near.Write(want)
	got := make([]byte, len(want))
	_, err := io.ReadFull(far, got)
	require.NoError(t, err)
	require.True(t, bytes.Equal(want, got))
}

// readFails waits for the error of a read that is under way.
func readFails(t *testing.T, s *stream) error {
	t.Helper()
	require.NoError(t, s.SetDeadline(time.Now().Add(patience)))
	_, err := s.Read(make([]byte, 1))
	require.Error(t, err)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
	return err
}

// TestEvents: what happens to port, queue pair and device ends streams with the cause.
func TestEvents(t *testing.T) {
	pair := func(t *testing.T, cfg Config) (a *Fabric, near, far *stream) {
		a, _ = openAt(t, cfg)
		b, x := openAt(t, config("roce0"))
		if strings.HasPrefix(cfg.Port, "mlx5") {
			b, x = openAt(t, config("mlx5_0"))
		}
		near, far = dialled(t, a, b, x)
		return a, near, far
	}
	t.Run("queue pair", func(t *testing.T) {
		_, near, _ := pair(t, config("mlx5_0"))
		order(t, fmt.Sprintf("qp mlx5_0 %d", near.mine.qpn))
		require.ErrorContains(t, readFails(t, near), "queue pair failed")
		_, err := near.Write([]byte("x"))
		require.Error(t, err)
	})
	t.Run("port", func(t *testing.T) {
		if !alone(t, machine()) {
			return
		}
		cfg := config("mlx5_0")
		cfg.PortGrace = 50 * time.Millisecond
		a, near, _ := pair(t, cfg)
		order(t, "port mlx5_0 1 down")
		const why = "ib: port mlx5_0:1 went down: see ibstat mlx5_0, and was not up again within 50ms; --fabric udp " +
			"does without"
		require.EqualError(t, readFails(t, near), why)
		require.Eventually(t, func() bool { return a.Post(a.Tuple(), []byte("x")) != nil }, patience, time.Millisecond)
		require.EqualError(t, a.Post(a.Tuple(), []byte("x")), why)
	})
	t.Run("port comes back", func(t *testing.T) {
		if !alone(t, machine()) {
			return
		}
		a, near, far := pair(t, config("mlx5_0"))
		order(t, "port mlx5_0 1 down")
		require.Eventually(t, func() bool { return a.down() != nil }, patience, time.Millisecond)
		order(t, "port mlx5_0 1 active")
		require.Eventually(t, func() bool { return a.down() == nil }, patience, time.Millisecond)
		passes(t, near, far, "x")
	})
	t.Run("device", func(t *testing.T) {
		if !alone(t, machine()) {
			return
		}
		a, near, far := pair(t, config("mlx5_0"))
		order(t, "fatal mlx5_0")
		for _, s := range []*stream{near, far} {
			require.ErrorContains(t, readFails(t, s), "mlx5_0: device failed")
		}
		require.Eventually(t, func() bool { return a.Post(a.Tuple(), []byte("x")) != nil }, patience, time.Millisecond)
		require.ErrorContains(t, a.Post(a.Tuple(), []byte("x")), "device failed")
		l := a.streams()
		spare := func() (*queuePair, error) { // as refill makes it
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.newQueuePair()
		}
		_, err := spare()
		require.Error(t, err)
		_, err = dial(t, a, a)
		require.ErrorContains(t, err, "device failed")
	})
}

// listenVariable makes a process of TestKilledPeer the one that is killed.
const listenVariable = "IBRUN_TEST_LISTEN"

// TestKilledPeer: a stream to a process that was killed fails, with Soft-RoCE's count of resends
// too, and does not hang.
func TestKilledPeer(t *testing.T) {
	if os.Getenv(listenVariable) != "" {
		b, x := openAt(t, config("mlx5_0"))
		offer, err := b.Offer()
		require.NoError(t, err)
		fmt.Printf("listens %x %x\n", b.Tuple().Append(nil), offer)
		_, err = io.Copy(io.Discard, x.Stream(t))
		require.NoError(t, err, "it should have been killed")
		return
	}
	t.Parallel() // it waits for the device's resends
	cmd := exec.Command(os.Args[0], "-test.run", "^TestKilledPeer$")
	cmd.Env = append(os.Environ(), aloneVariable+"="+t.Name(), listenVariable+"=1") // in this network
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	defer cmd.Wait()
	defer cmd.Process.Kill()
	var where, offer []byte
	_, err = fmt.Fscanf(out, "listens %x %x\n", &where, &offer)
	require.NoError(t, err)
	to, _, err := fabric.ParseTuple(where)
	require.NoError(t, err)
	a, _ := openAt(t, config("mlx5_0"))
	s, err := a.Dial(t.Context(), to, offer)
	require.NoError(t, err)
	defer s.Close()
	_, err = s.Write([]byte("x"))
	require.NoError(t, err)
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	_, err = s.Write([]byte("y"))
	if err == nil {
		err = readFails(t, s.(*stream))
	}
	require.ErrorContains(t, err, "ib: no answer from the peer (queue pair")
}

// TestLastStream: a stream that nobody takes ends after its endpoint, with nothing else going on,
// and all is freed.
func TestLastStream(t *testing.T) {
	if !alone(t, machine()) {
		return
	}
	a, _ := openAt(t, config("mlx5_0"))
	b, x := openAt(t, config("mlx5_0"))
	near, far := dialled(t, a, b, x)
	require.NoError(t, a.Close())
	require.NoError(t, b.Close())
	for _, s := range []*stream{near, far} {
		s.through() // as the timer does
	}
	gone := func() bool {
		all, err := fakeverbs.Join().Order("count mlx5_0")
		return err == nil && len(all) == 0
	}
	require.Eventually(t, gone, patience, 10*time.Millisecond)
}

// TestStale: a message of a stream that had the number before is dropped.
func TestStale(t *testing.T) {
	a, _ := openAt(t, config("mlx5_0"))
	b, x := openAt(t, config("mlx5_0"))
	near, far := dialled(t, a, b, x)
	old := message{tag: far.mine.tag + 1}
	far.received(&verbs.Completion{Length: 3, Imm: old.immediate(), Flags: verbs.HasImm}, []byte("old"))
	passes(t, near, far, "new")
}

// registered waits until a fabric with a peer has registered what it does in the background: the
// queue pairs for the next ones, and receives after the first datagram.
func registered(t *testing.T, f *Fabric) {
	t.Helper()
	spare := func() int {
		f.engine.mu.Lock()
		defer f.engine.mu.Unlock()
		return len(f.engine.spare)
	}
	require.Eventually(t, func() bool {
		return spare() == spares && f.Counters().Pinned-sharedMemory(f) >= defaultReceives*mostBody
	}, patience, time.Millisecond)
}

// sharedMemory is that of the receives that all of a fabric's streams share, in bytes.
func sharedMemory(f *Fabric) (n uint64) {
	f.engine.mu.Lock()
	defer f.engine.mu.Unlock()
	for _, r := range f.engine.rings {
		n += uint64(len(r.mr.Bytes()))
	}
	return n
}

// TestMemory: what is registered without peers, and for each stream besides what all share.
func TestMemory(t *testing.T) {
	a, _ := openAt(t, config("mlx5_0"))
	b, x := openAt(t, config("mlx5_0"))
	require.LessOrEqual(t, a.Counters().Pinned, uint64(64<<10))
	dialled(t, a, b, x)
	registered(t, a)
	c := a.Counted()
	require.Equal(t, []uint64{1, 1, spares}, []uint64{c.DatagramPairs, c.StreamPairs, c.SparePairs})
	before := a.Counters().Pinned - sharedMemory(a)
	const more = 20
	for range more {
		dialled(t, a, b, x)
	}
	require.Eventually(t, func() bool { return a.Counters().Made >= 1+spares+more }, patience, time.Millisecond)
	require.LessOrEqual(t, a.Counters().Pinned-sharedMemory(a)-before, uint64(more*32<<10))
	require.LessOrEqual(t, sharedMemory(a), uint64(mostShared*piece))
}

// TestConnectCost: four datagrams at most, both ways, where none is lost.
func TestConnectCost(t *testing.T) {
	a, _ := openAt(t, config("mlx5_0"))
	b, x := openAt(t, config("mlx5_0"))
	dialled(t, a, b, x) // the first waits for queue pairs that are made, and asks again
	require.Eventually(t, func() bool {
		before := a.Counters().Control + b.Counters().Control
		dialled(t, a, b, x)
		return a.Counters().Control+b.Counters().Control-before == 2
	}, patience, time.Millisecond)
}
