//go:build ib

package ib

import (
	"fmt"
	"io"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/cgo/verbs"
	"ibrun/fabric"
	"ibrun/fabric/fabrictest"
	"ibrun/test/fakeverbs"
)

// logged makes this test run alone, on a node whose library writes what it is given. It returns the
// log's lines of one device that begin with a word.
func logged(t *testing.T, node fakeverbs.Node) (lines func(word, device string) []string, here bool) {
	t.Helper()
	const variable = "IBRUN_TEST_LOG"
	if node.Log = os.Getenv(variable); node.Log == "" {
		node.Log = t.TempDir() + "/log"
		t.Setenv(variable, node.Log)
	}
	return func(word, device string) (found []string) {
		text, err := os.ReadFile(node.Log)
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, word+" dev="+device+" ") {
				found = append(found, line)
			}
		}
		return found
	}, alone(t, node)
}

// values are the distinct values of a field in some lines, in the order in which they come.
func values(lines []string, field string) (all []string) {
	for _, line := range lines {
		for _, m := range regexp.MustCompile(` `+field+`=(\S*)`).FindAllStringSubmatch(line, 1) {
			if !strings.Contains(" "+strings.Join(all, " ")+" ", " "+m[1]+" ") {
				all = append(all, m[1])
			}
		}
	}
	return all
}

// passes sends some bytes by a stream.
func passes(t *testing.T, near io.Writer, far io.Reader, text string) {
	t.Helper()
	_, err := near.Write([]byte(text))
	require.NoError(t, err)
	got := make([]byte, len(text))
	_, err = io.ReadFull(far, got)
	require.NoError(t, err)
	require.Equal(t, text, string(got))
}

func ibGID(last byte) []verbs.GID {
	return []verbs.GID{{Type: verbs.GIDIB, Addr: [16]byte{0: 0xfe, 1: 0x80, 8: 2, 15: last}}}
}

// origins is a sink that knows where datagrams came from.
type origins struct {
	*fabrictest.Box
	from sync.Map // text to fabric.Tuple
}

func (o *origins) Datagram(from fabric.Tuple, b []byte) {
	o.from.Store(string(b), from)
	o.Box.Datagram(from, b)
}

// masks is a node with two ports whose masks differ.
func masks() fakeverbs.Node {
	return fakeverbs.Node{Devices: []fakeverbs.Device{
		{Name: "mlx5_0", GUID: 1, Ports: []fakeverbs.Port{{LID: 0x3a4, LMC: 2, SMLID: 1, GIDs: ibGID(1)}}},
		{Name: "mlx5_1", GUID: 2, Ports: []fakeverbs.Port{{LID: 0x2b0, LMC: 1, SMLID: 1, GIDs: ibGID(2)}}},
	}}
}

// TestMask: two ports whose masks differ. Ranks publish LIDs of their own and send datagrams from
// them; the streams of one pair use all LIDs of both ports, each the one that the other expects.
func TestMask(t *testing.T) {
	lines, here := logged(t, masks())
	if !here {
		return
	}
	at := func(port string, rank int) (*Fabric, *fabrictest.Box) {
		cfg := config(port)
		cfg.Rank = rank
		return openAt(t, cfg)
	}
	x := &origins{Box: fabrictest.NewBox()}
	b, err := Open(config("mlx5_1"), x)
	require.NoError(t, err)
	t.Cleanup(func() { b.Close() })
	published := map[uint16]bool{}
	for rank := range 8 {
		a, _ := at("mlx5_0", rank)
		published[a.Tuple().LID] = true
		require.EqualValues(t, 0x3a4+int(lane(rank, 2)), a.Tuple().LID)
		text := fmt.Sprint("from rank ", rank)
		require.NoError(t, a.Post(b.Tuple(), []byte(text)))
		require.True(t, x.Has(text))
		from, _ := x.from.Load(text)
		require.Equal(t, a.Tuple(), from, "it comes from what is published")
	}
	require.Len(t, published, 4)
	require.ElementsMatch(t, []string{"0", "1", "2", "3"}, values(lines("ah", "mlx5_0"), "src_path_bits"))

	a, _ := at("mlx5_0", 0)
	for i := range 4 {
		near, far := dialled(t, a, b, x.Box)
		passes(t, near, far, fmt.Sprint("stream ", i))
	}
	require.ElementsMatch(t, []string{"0", "1", "2", "3"}, values(lines("rtr", "mlx5_0"), "src_path_bits"))
	require.ElementsMatch(t, []string{"688", "689"}, values(lines("rtr", "mlx5_0"), "dlid"))
	require.ElementsMatch(t, []string{"0", "1"}, values(lines("rtr", "mlx5_1"), "src_path_bits"))
	require.ElementsMatch(t, []string{"932", "933", "934", "935"}, values(lines("rtr", "mlx5_1"), "dlid"))
}

// partitions is a node with the same partition at other places of each port's table, once only at a
// device's second port.
func partitions() fakeverbs.Node {
	return fakeverbs.Node{Devices: []fakeverbs.Device{
		{Name: "mlx5_0", GUID: 1, Ports: []fakeverbs.Port{
			{LID: 5, SMLID: 1, GIDs: ibGID(1), PKeys: []uint16{0xffff, 0x8005, 0x0009}}}},
		{Name: "mlx5_1", GUID: 2, Ports: []fakeverbs.Port{
			{LID: 6, SMLID: 1, GIDs: ibGID(2), PKeys: []uint16{0xffff}},
			{LID: 7, SMLID: 1, GIDs: ibGID(3), PKeys: []uint16{0xffff, 0x0005, 0, 0x8005}}}},
		{Name: "mlx5_2", GUID: 3, Ports: []fakeverbs.Port{
			{LID: 8, SMLID: 1, GIDs: ibGID(4), PKeys: []uint16{0x7fff, 0x0009, 0x8007}}}},
	}}
}

// TestPartitionByValue: each port's own index of the partition, in every queue pair; a full
// membership before a limited one; the port of a device that has it.
func TestPartitionByValue(t *testing.T) {
	lines, here := logged(t, partitions())
	if !here {
		return
	}
	with := func(port string, key uint16) (*Fabric, *fabrictest.Box) {
		cfg := config(port)
		cfg.PKey = key
		return openAt(t, cfg)
	}
	a, _ := with("mlx5_0", 0x8005)
	b, x := with("mlx5_1", 0x8005)
	require.Equal(t, "mlx5_1:2", b.Port())
	near, far := dialled(t, a, b, x)
	passes(t, near, far, "in partition 5")
	require.Equal(t, []string{"1"}, values(lines("init", "mlx5_0"), "pkey_index"))
	require.Equal(t, []string{"3"}, values(lines("init", "mlx5_1"), "pkey_index"))
	require.Equal(t, []string{"0x8005"}, values(append(lines("init", "mlx5_0"), lines("init", "mlx5_1")...), "pkey"))
	require.GreaterOrEqual(t, len(lines("init", "mlx5_0")), 2, "of datagrams and of a stream")

	cfg := config("mlx5_1")
	cfg.PKey = 0x8123
	_, err := Open(cfg, x)
	require.EqualError(t, err,
		"ib: port mlx5_1:1 is not in partition 0x8123: it has 0xffff; choose one of these with --pkey")
}

// TestLimitedMembers: two limited members of a partition learn at the first message, and before a
// datagram is sent, that they do not reach each other. A full one reaches both.
func TestLimitedMembers(t *testing.T) {
	node := partitions()
	node.Devices[1].Ports = node.Devices[1].Ports[:1]
	node.Devices[1].Ports[0].PKeys = []uint16{0xffff, 0x8009}
	lines, here := logged(t, node)
	if !here {
		return
	}
	with := func(port string) (*Fabric, *fabrictest.Box) {
		cfg := config(port)
		cfg.PKey = 9
		return openAt(t, cfg)
	}
	a, _ := with("mlx5_0")
	full, heard := with("mlx5_1")
	b, x := with("mlx5_2")
	const want = "ib: its port (LID 8) and port mlx5_0:1 of this node (LID 5) are both limited members of partition " +
		"0x0009, which do not reach each other: make one a full member in the subnet manager's partitions.conf, or " +
		"choose another partition with --pkey; see smpquery pkeys 5"
	require.EqualError(t, a.Post(b.Tuple(), []byte("x")), want)
	_, err := dial(t, a, b)
	require.EqualError(t, err, want)
	require.Empty(t, append(lines("ah", "mlx5_0"), lines("rtr", "mlx5_0")...))
	near, far := dialled(t, a, full, heard)
	passes(t, near, far, "to a full member")
	near, far = dialled(t, full, b, x)
	passes(t, near, far, "from a full member")
}

// twoNets are RoCE devices that are each in two IP networks, as by VLANs, and list them
// differently.
func twoNets() fakeverbs.Node {
	at := func(a, b verbs.GID) []fakeverbs.Port {
		return []fakeverbs.Port{{Link: verbs.LinkEthernet, MTU: verbs.MTU1024,
			GIDs: []verbs.GID{linkLocal(verbs.GIDRoCEv1, 1), a, linkLocal(verbs.GIDRoCEv2, 1), b}}}
	}
	return fakeverbs.Node{Devices: []fakeverbs.Device{
		{Name: "roce0", GUID: 1, Ports: at(v4(10, 0, 0, 1), v4(10, 1, 0, 1))},
		{Name: "roce1", GUID: 2, Ports: at(v4(10, 1, 0, 2), v4(10, 0, 0, 2))},
	}}
}

// routes are those of a node with an address .host in networks of the form 10.N.0.0/16.
func routes(host byte) func(netip.Addr) netip.Addr {
	return func(a netip.Addr) netip.Addr {
		b := a.As4()
		b[3] = host
		return netip.AddrFrom4(b)
	}
}

// TestGIDByRoute: packets leave by the GID of the network that the peer's address is in, in address
// handles and queue pairs, and the peer's queue pair expects them from there.
func TestGIDByRoute(t *testing.T) {
	lines, here := logged(t, twoNets())
	if !here {
		return
	}
	a, heardA := openAt(t, config("roce0"))
	b, x := openAt(t, config("roce1"))
	a.dev.at.sources.ask, b.dev.at.sources.ask = routes(1), routes(2)
	require.Equal(t, [16]byte{10, 0, 0, 1}, a.Tuple().Addr)
	require.Equal(t, [16]byte{10, 1, 0, 2}, b.Tuple().Addr)

	require.NoError(t, a.Post(b.Tuple(), []byte("by 10.1")))
	require.True(t, x.Has("by 10.1"))
	require.NoError(t, b.Post(a.Tuple(), []byte("by 10.0")))
	require.True(t, heardA.Has("by 10.0"))
	const self = "1" // chooseAddress makes a handle to itself
	require.Equal(t, []string{self, "3"}, values(lines("ah", "roce0"), "sgid_index"))
	require.Equal(t, []string{self, "3"}, values(lines("ah", "roce1"), "sgid_index"))

	near, far := dialled(t, a, b, x)
	passes(t, near, far, "by 10.1, to and fro")
	require.Equal(t, []string{"3"}, values(lines("rtr", "roce0"), "sgid_index"))
	require.Equal(t, []string{"1"}, values(lines("rtr", "roce1"), "sgid_index"))

	far.Close()
	cfg := config("roce0")
	cfg.GIDIndex = 3 // what the user chooses is not chosen again
	c, _ := openAt(t, cfg)
	require.Len(t, c.dev.at.sources.list, 1)
	c.dev.at.sources.ask = func(netip.Addr) netip.Addr { panic("asked") }
	require.NoError(t, c.Post(b.Tuple(), []byte("by index")))
	require.True(t, x.Has("by index"))
}

// order sends a command to the simulated devices of this process's network.
func order(t testing.TB, words string) {
	t.Helper()
	_, err := fakeverbs.Join().Order(words)
	require.NoError(t, err)
}

// TestTablesChange: what the endpoint's address rests on goes. It is lost with the cause, its
// streams too, unless it is there again within the grace.
func TestTablesChange(t *testing.T) {
	for name, c := range map[string]struct {
		node               fakeverbs.Node
		port               string
		key                uint16
		gone, again, cause string
	}{
		"GID": {twoNets(), "roce0", 0, "gid roce0 1 1 -",
			"gid roce0 1 1 2:00000000000000000000ffff0a000001",
			"port roce0:1: its GID 10.0.0.1, by which peers reach this rank, is gone: give its interface the address " +
				"again (ip addr), or use --fabric udp"},
		"partition": {partitions(), "mlx5_0", 0x8005, "pkey mlx5_0 1 1 0x8006", "pkey mlx5_0 1 1 0x8005",
			"port mlx5_0:1: it is not in partition 0x8005 any more: see smpquery pkeys 5"},
		"LID": {machine(), "mlx5_0", 0, "lid mlx5_0 1 77", "lid mlx5_0 1 932",
			"port mlx5_0:1: it has LID 77 (LMC 0) now, and peers know 932 (0)"},
	} {
		t.Run(name, func(t *testing.T) {
			if !alone(t, c.node) {
				return
			}
			cfg := config(c.port)
			cfg.PKey, cfg.PortGrace = c.key, patience
			a, x := openAt(t, cfg)
			order(t, c.gone)
			require.Eventually(t, a.moving.Load, patience, time.Millisecond)
			require.NoError(t, a.Post(a.Tuple(), []byte("x")), "within the grace, it may be lost")
			order(t, c.again)
			a.expire()
			require.NoError(t, a.Post(a.Tuple(), []byte("back")))
			require.True(t, x.Has("back"))

			cfg.PortGrace = time.Millisecond
			b, _ := openAt(t, cfg)
			near, _ := dialled(t, b, a, x)
			order(t, c.gone)
			fails := func() bool { return b.Post(a.Tuple(), []byte("x")) != nil }
			require.Eventually(t, fails, patience, time.Millisecond)
			require.ErrorContains(t, b.Post(a.Tuple(), []byte("x")), c.cause)
			require.ErrorContains(t, readFails(t, near), c.cause)
			require.NoError(t, a.Post(a.Tuple(), []byte("x")), "its grace goes on")
		})
	}
}

// TestGIDComes: a new address changes no stream, and the next datagram finds its way anew.
func TestGIDComes(t *testing.T) {
	node := twoNets()
	node.Devices[0].Ports[0].GIDs[3] = verbs.GID{Type: verbs.GIDUnknown}
	lines, here := logged(t, node)
	if !here {
		return
	}
	a, _ := openAt(t, config("roce0"))
	b, x := openAt(t, config("roce1"))
	a.dev.at.sources.ask = routes(1)
	require.NoError(t, a.Post(b.Tuple(), []byte("before")))
	require.True(t, x.Has("before"))
	require.Equal(t, []string{"1"}, values(lines("ah", "roce0"), "sgid_index"))
	order(t, "gid roce0 1 3 2:00000000000000000000ffff0a010001")
	require.Eventually(t, func() bool {
		return a.Post(b.Tuple(), []byte("after")) == nil &&
			strings.Contains(strings.Join(lines("ah", "roce0"), ""), "sgid_index=3")
	}, patience, time.Millisecond)
	require.True(t, x.Has("after"))
}
