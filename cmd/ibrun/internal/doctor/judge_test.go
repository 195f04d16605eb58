package doctor

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// healthy is a node with nothing to find: two ports, of which one is not
// plugged in.
func healthy(i int) Node {
	return Node{
		Name: fmt.Sprintf("n%d", i), How: "ssh", Answer: 0.2, Clock: &Clock{-0.1, 0.1},
		Report: &Report{
			Host: fmt.Sprintf("n%d.cluster", i), Boot: fmt.Sprintf("boot-%d", i), Kernel: "6.1.0", Machine: "x86_64",
			Binary: "/home/u/.cache/ibrun/ibrun-1",
			CPUs:   CPUs{"0-7", "0-7", 8, 0, 0.5},
			Memory: Memory{16 << 30, 12 << 30, 0}, Memlock: Limit{Unlimited, Unlimited}, Files: Limit{4096, 1 << 20},
			Folders: []Folder{{"/dev/shm", Shared, 8 << 30, 8 << 30, ""}, {"/tmp", Scratch, 1 << 30, 1 << 29, ""},
				{"/home/u/.cache/ibrun", Cache, 1 << 30, 1 << 29, ""}},
			Data:  Route{fmt.Sprintf("10.1.0.%d", i), "eth0", "10.1.0.0/16", 1500, 10000, false, ""},
			Addrs: []Address{{"eth0", fmt.Sprintf("10.1.0.%d", i), false}},
			Verbs: Verbs{
				ABI: "6", Library: "/usr/lib64/libibverbs.so.1", Devices: []DeviceFile{{"/dev/infiniband/rdma_cm", ""},
					{"/dev/infiniband/uverbs0", ""}},
				Listed: []Listed{{"mlx5_0", "", "20.30", 2}},
			},
			HCAs: []HCA{{Name: "mlx5_0", GUID: fmt.Sprintf("0002c9030000%02x00", i), Ports: []Port{
				{Number: 1, State: "ACTIVE", Physical: "LinkUp", Layer: "InfiniBand", LID: uint32(16 * i), LMC: 1,
					SMLID: 1, Rate: 100,
					GIDs:  []GID{{0, fmt.Sprintf("fe800000000000000002c9030000%02x01", i), "IB/RoCE v1", ""}},
					PKeys: []uint16{0xffff}},
				{Number: 2, State: "DOWN", Physical: "Polling", Layer: "InfiniBand", Rate: 10},
			}}},
		},
	}
}

// quiet is what healthy nodes have: a port that is not plugged in is a note.
const quiet = "note mlx5_0:2 n[1-3]: DOWN (Polling)"

// roce turns a node's first port into one of RoCE.
func roce(n *Node) {
	p := &n.Report.HCAs[0].Ports[0]
	p.Layer, p.LID, p.SMLID, p.LMC, p.MTU, p.PKeys = "Ethernet", 0, 0, 0, 1500, []uint16{0xffff}
	n.Report.HCAs[0].Links = []string{"eth1"}
}

// bare takes a node's devices away.
func bare(n *Node) {
	n.Report.HCAs, n.Report.Verbs = nil, Verbs{Deaf: "protocol not supported"}
}

func port(n *Node) *Port { return &n.Report.HCAs[0].Ports[0] }

func TestJudge(t *testing.T) {
	for name, c := range map[string]struct {
		change func(n []Node)
		ib     bool
		// all findings, "severity subject nodes: what the text contains"; quiet unless they say
		// otherwise of that port
		want []string
	}{
		"healthy":     {change: func([]Node) {}},
		"healthy, ib": {change: func([]Node) {}, ib: true},
		"not reached": {func(n []Node) {
			n[1].Report, n[1].Lost = nil, &Lost{"front", "connect",
				"No route to host", ""}
		}, false, []string{"error launch n2: not examined: front could not reach it (connect): No route to host",
			"note mlx5_0:2 n1,n3: DOWN"}},
		"only from here": {func(n []Node) { n[2].Fallback = &Lost{"n1", "authenticate", "Permission denied", ""} },
			false, []string{"warning launch n3: cannot be reached from n1 (authenticate)"}},
		"clock ahead": {func(n []Node) { n[0].Clock = &Clock{1.5, 2.1} }, false,
			[]string{"warning clock n1: at least 1.5 s ahead of"}},
		"clock behind": {func(n []Node) { n[0].Clock = &Clock{-4, -2.5} }, false,
			[]string{"warning clock n1: at least 2.5 s behind"}},
		"clock not certain": {func(n []Node) { n[0].Clock = &Clock{-5, 0.5} }, false, nil},
		"another name": {func(n []Node) { n[0].Report.Host = "login1" }, false,
			[]string{"note name n1: calls itself login1"}},
		"an address": {func(n []Node) { n[0].Name, n[0].Report.Host = "10.1.0.1", "login1" }, false,
			[]string{"note mlx5_0:2 10.1.0.1,n[2-3]: DOWN"}},
		"cpuset": {func(n []Node) { n[0].Report.CPUs.Allowed, n[0].Report.CPUs.Many = "0-1", 2 }, false,
			[]string{"note cpuset n1: CPUs 0-1 of 0-7", "note cpus n[1-3]: 8 on n[2-3], 2 on n1"}},
		"quota": {func(n []Node) { n[0].Report.CPUs.Quota = 1.5 }, false,
			[]string{"warning quota n1: 1.5 CPUs' worth"}},
		"quota of all": {func(n []Node) { n[0].Report.CPUs.Quota = 8 }, false, nil},
		"load": {func(n []Node) { n[0].Report.CPUs.Load = 8.5 }, false,
			[]string{"warning load n1: more runs"}},
		"memory limit": {func(n []Node) { n[0].Report.Memory.Limit = 1 << 30 }, false,
			[]string{"note memory n1: leaves 1 GiB"}},
		"memory full": {func(n []Node) { n[0].Report.Memory.Available = 1 << 28 }, false,
			[]string{"warning memory n1: less than a twentieth"}},
		"open files": {func(n []Node) { n[0].Report.Files.Soft = 256 }, false,
			[]string{"warning open files n1: 256 files"}},
		"shm": {func(n []Node) { n[0].Report.Folders[0].Size = 64 << 20 }, false,
			[]string{"warning /dev/shm n1: has 64 MiB"}},
		"tmp full": {func(n []Node) { n[0].Report.Folders[1].Free = 1 << 20 }, false,
			[]string{"warning /tmp n1: all but full"}},
		"tmp read-only": {func(n []Node) { n[0].Report.Folders[1].Fault = "read-only file system" }, false,
			[]string{"warning /tmp n1: read-only file system"}},
		"cache": {func(n []Node) { n[0].Report.Folders[2].Fault = "permission denied" }, false,
			[]string{"note cache n1: permission denied"}},
		"sent each time": {func(n []Node) { n[0].Report.Binary = "" }, false,
			[]string{"note cache n1: sent there again"}},
		"odd sysfs": {func(n []Node) { n[0].Report.Notes = []string{"strange"} }, false,
			[]string{"note sysfs n1: strange"}},
		"kernel": {func(n []Node) { n[0].Report.Kernel = "5.10" }, false,
			[]string{"note kernel n[1-3]: 6.1.0 on n[2-3], 5.10 on n1"}},
		"machine": {func(n []Node) { n[2].Report.Machine = "aarch64" }, false,
			[]string{"warning machine n[1-3]: aarch64 on n3"}},
		"one machine": {func(n []Node) { *n[1].Report = *n[0].Report; n[1].Name = "n1.eth" }, false,
			[]string{"note name n1,n1.eth: names of one machine", "note mlx5_0:2 n1,n1.eth,n3: DOWN"}},

		"no route": {func(n []Node) { n[0].Report.Data = Route{Fault: "no network interface"} }, false,
			[]string{"error data path n1: no network interface"}},
		"loopback": {func(n []Node) { n[0].Report.Data.Local = true }, false,
			[]string{"error data path n1: loopback"}},
		"mtu": {func(n []Node) { n[0].Report.Data.MTU = 9000 }, false,
			[]string{"warning data path n[1-3]: MTU differs: 1500 on n[2-3], 9000 on n1"}},
		"speed": {func(n []Node) { n[0].Report.Data.Speed = 1000 }, false,
			[]string{"warning data path n[1-3]: 1000 Mb/s on n1"}},
		"speed not known": {func(n []Node) { n[0].Report.Data.Speed = 0 }, false, nil},
		"IPv6 and IPv4": {func(n []Node) { n[0].Report.Data.Addr = "fd00::1" }, false,
			[]string{"error data path n[1-3]: IPv6 on n1"}},
		"address of data": {func(n []Node) {
			n[1].Report.Addrs = append(n[1].Report.Addrs, Address{"eth1", "10.1.0.1", false})
		}, false, []string{"error address n[1-2]: 10.1.0.1, by which data would go"}},
		"address twice": {func(n []Node) {
			for i := range n {
				n[i].Report.Addrs = append(n[i].Report.Addrs, Address{"eth1", "192.168.0.1", false})
			}
		}, false, []string{"warning address n[1-3]: 192.168.0.1 is an address of several"}},
		"docker": {func(n []Node) {
			for i := range n {
				n[i].Report.Addrs = append(n[i].Report.Addrs, Address{"docker0", "172.17.0.1", true})
			}
		}, false, []string{"note address n[1-3]: container bridges"}},

		"library": {func(n []Node) { n[0].Report.Verbs.Library = "" }, false,
			[]string{"warning libibverbs n1: not there"}},
		"library, ib": {func(n []Node) { n[0].Report.Verbs.Library = "" }, true,
			[]string{"error libibverbs n1: not there"}},
		"module": {func(n []Node) { n[0].Report.Verbs.ABI = "" }, false,
			[]string{"warning ib_uverbs n1: not loaded"}},
		"rights": {func(n []Node) { n[0].Report.Verbs.Devices[1].Fault = "permission denied" }, true,
			[]string{"error /dev/infiniband/uverbs0 n1: permission denied"}},
		"rights of another": {func(n []Node) { n[0].Report.Verbs.Devices[0].Fault = "permission denied" }, true, nil},
		"no device file": {func(n []Node) { n[0].Report.Verbs.Devices = nil }, false,
			[]string{"warning /dev/infiniband n1: no uverbs device"}},
		"memlock": {func(n []Node) { n[0].Report.Memlock = Limit{64 << 10, 1 << 20} }, false,
			[]string{"warning memlock n1: lock 64 KiB of memory (hard limit 1 MiB)"}},
		"memlock, ib": {func(n []Node) { n[0].Report.Memlock = Limit{64 << 10, 1 << 20} }, true,
			[]string{"error memlock n1: lock 64 KiB"}},
		"memlock, no RDMA": {func(n []Node) {
			for i := range n {
				bare(&n[i])
				n[i].Report.Memlock.Soft = 64 << 10
			}
		}, false, []string{"no mlx5_0:2"}},
		"another namespace": {func(n []Node) { n[0].Report.Verbs.Listed = nil }, false,
			[]string{"warning mlx5_0 n1: another network namespace"}},
		"not listed": {func(n []Node) { n[0].Report.Verbs.Deaf = "protocol not supported" }, false,
			[]string{"warning netlink n1: does not list them"}},

		"no RDMA, ib": {func(n []Node) { bare(&n[0]); bare(&n[1]); bare(&n[2]) }, true,
			[]string{"error rdma n[1-3]: no RDMA device; the kernel says: protocol not supported", "no mlx5_0:2"}},
		"RDMA on some": {func(n []Node) { bare(&n[0]) }, false,
			[]string{"warning rdma n[1-3]: active ports on n[2-3], no device on n1", "no mlx5_0:2",
				"note mlx5_0:2 n[2-3]: DOWN"}},
		"no driver": {func(n []Node) { bare(&n[0]); n[0].Report.Verbs.Deaf = "" }, false,
			[]string{"note rdma n1: no RDMA device", "warning rdma n[1-3]: no device on n1", "no mlx5_0:2",
				"note mlx5_0:2 n[2-3]: DOWN"}},
		"port down": {func(n []Node) { port(&n[0]).State, port(&n[0]).Physical = "DOWN", "Polling" }, false,
			[]string{"warning mlx5_0:1 n1: DOWN (Polling)", "warning rdma n[1-3]: no active port on n1",
				"warning mlx5_0:1 n[1-3]: state differs: ACTIVE on n[2-3], DOWN on n1", "no mlx5_0:2",
				"warning mlx5_0:2 n1: DOWN", "note mlx5_0:2 n[2-3]: DOWN"}},
		"no manager": {func(n []Node) { port(&n[0]).State = "INIT" }, true,
			[]string{"error mlx5_0:1 n1: no subnet manager", "error rdma n[1-3]: no active port on n1",
				"warning mlx5_0:1 n[1-3]: state differs", "no mlx5_0:2", "error mlx5_0:2 n1: DOWN",
				"note mlx5_0:2 n[2-3]: DOWN"}},
		"no LID": {func(n []Node) { port(&n[0]).LID = 0 }, true,
			[]string{"error mlx5_0:1 n1: active and has no LID"}},
		"limited": {func(n []Node) { port(&n[0]).PKeys = []uint16{0x7fff} }, true,
			[]string{"error mlx5_0:1 n1: limited member"}},
		"prefix": {func(n []Node) { port(&n[0]).GIDs[0].GID = "fec0000000000001" + port(&n[0]).GIDs[0].GID[16:] },
			true,
			[]string{"error mlx5_0:1 n[1-3]: subnet prefix differs: fe80000000000000 on n[2-3], " +
				"fec0000000000001 on n1"}},
		"node GUID": {func(n []Node) { n[2].Report.HCAs[0].GUID = n[0].Report.HCAs[0].GUID }, false,
			[]string{"error node GUID n1,n3: 0002c90300000100"}},
		"port GUID": {func(n []Node) { port(&n[2]).GIDs = port(&n[0]).GIDs }, false,
			[]string{"error port GUID n1,n3: 0002c90300000101"}},
		"no GUIDs": {func(n []Node) { n[0].Report.HCAs[0].GUID, n[1].Report.HCAs[0].GUID = "", "" }, false, nil},
		"LID": {func(n []Node) { port(&n[2]).LID = port(&n[0]).LID }, false,
			[]string{"error LID n1,n3: n1 mlx5_0:1 and n3 mlx5_0:1 both have LID 16"}},
		"LID in LMC": {func(n []Node) { port(&n[1]).LID = port(&n[0]).LID + 1 }, false,
			[]string{"error LID n[1-2]: both have LID 17"}},
		"none is up": {func(n []Node) { n[0].Report.HCAs[0].Ports[1].State = "INIT" }, false,
			[]string{"note mlx5_0:2 n1: no subnet manager", "note mlx5_0:2 n[2-3]: DOWN"}},
		"LID of old": {func(n []Node) {
			*port(&n[2]) = Port{Number: 1, State: "DOWN", Physical: "Polling", Layer: "InfiniBand",
				LID: port(&n[0]).LID, GIDs: port(&n[2]).GIDs}
		}, false, []string{"warning mlx5_0:1 n3: DOWN (Polling)", "warning rdma n[1-3]: no active port on n3",
			"warning mlx5_0:1 n[1-3]: state differs", "warning mlx5_0:2 n3: DOWN", "note mlx5_0:2 n[1-2]: DOWN"}},
		"LID elsewhere": {func(n []Node) {
			port(&n[1]).LID = port(&n[0]).LID
			port(&n[1]).GIDs[0].GID = "fec0000000000001" + port(&n[1]).GIDs[0].GID[16:]
		}, false, []string{"warning mlx5_0:1 n[1-3]: subnet prefix"}},
		"odd LMC": {func(n []Node) { port(&n[0]).LMC = 255 }, false, []string{"error LID n[1-2]: both have",
			"error LID n1,n3: both have"}},
		"managers": {func(n []Node) { port(&n[0]).SMLID = 9 }, false,
			[]string{"warning subnet manager n[1-3]: LID 1 on n[2-3], LID 9 on n1"}},
		"rate": {func(n []Node) { port(&n[0]).Rate = 56 }, false,
			[]string{"warning mlx5_0:1 n[1-3]: rate differs: 100 Gb/s on n[2-3], 56 Gb/s on n1"}},
		"layer": {func(n []Node) { roce(&n[0]) }, true,
			[]string{"error mlx5_0:1 n[1-3]: link layer differs: InfiniBand on n[2-3], Ethernet on n1"}},
		"RoCE": {func(n []Node) { roce(&n[0]); roce(&n[1]); roce(&n[2]) }, true, nil},
		"RoCE mtu": {func(n []Node) { roce(&n[0]); roce(&n[1]); roce(&n[2]); port(&n[0]).MTU = 4200 }, true,
			[]string{"warning mlx5_0:1 n[1-3]: MTU differs: 1500 on n[2-3], 4200 on n1"}},
		"pkeys": {func(n []Node) { port(&n[0]).PKeys = []uint16{0x8001} }, true,
			[]string{"error mlx5_0:1 n[1-3]: no partition (pkey) is shared by all: 0xffff on n[2-3], 0x8001 on n1"}},
		"a shared pkey": {func(n []Node) { port(&n[0]).PKeys = []uint16{0x8001, 0x7fff} }, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			nodes := []Node{healthy(1), healthy(2), healthy(3)}
			c.change(nodes)
			found := Judge(nodes, c.ib)
			want := c.want
			if !strings.Contains(strings.Join(want, " "), "mlx5_0:2") {
				want = append(want, quiet)
			}
			want = slices.DeleteFunc(want, func(w string) bool { return strings.HasPrefix(w, "no ") })
			for _, w := range want {
				require.True(t, has(found, w), "%s\nnot in\n%s", w, lines(found))
			}
			require.Len(t, found, len(want), lines(found))
			for i := 1; i < len(found); i++ {
				require.GreaterOrEqual(t, found[i-1].Severity, found[i].Severity, "the worst first")
			}
		})
	}
}

// line is a finding as the tests write it.
func line(f Finding) string {
	return fmt.Sprintf("%s %s %s: %s", f.Severity, f.Subject, Fold(f.Nodes), f.Text)
}

func lines(found []Finding) string {
	var all []string
	for _, f := range found {
		all = append(all, line(f))
	}
	return strings.Join(all, "\n")
}

func has(found []Finding, want string) bool {
	head, text, _ := strings.Cut(want, ": ")
	for _, f := range found {
		if strings.HasPrefix(line(f), head+": ") && strings.Contains(f.Text, text) {
			return true
		}
	}
	return false
}

// Many nodes with one trouble are one finding, and two of a kind stay apart.
func TestManyNodes(t *testing.T) {
	var nodes []Node
	for i := range 200 {
		n := healthy(i % 100)
		n.Name = fmt.Sprintf("node%04d", i+1)
		n.Report.Boot = n.Name
		bare(&n)
		if i == 100 {
			n.Report.Files.Soft = 10
		} else {
			n.Report.Files.Soft = 20
		}
		n.Report.Addrs, n.Report.Host = nil, n.Name
		nodes = append(nodes, n)
	}
	found := Judge(nodes, false)
	require.Len(t, found, 2, lines(found))
	require.Equal(t, "node[0001-0100],node[0102-0200]", Fold(found[0].Nodes))
	require.Equal(t, "node0101", Fold(found[1].Nodes))
	require.Equal(t, [3]int{Warning: 2}, Count(found))
}

func TestFold(t *testing.T) {
	for want, names := range map[string]string{
		"":                                "",
		"a":                               "a",
		"a,b":                             "a b",
		"n[1-3]":                          "n1 n2 n3",
		"n[1-2],n4":                       "n1 n2 n4",
		"n[08-11],n7":                     "n08 n09 n10 n11 n7",
		"n9,n10":                          "n9 n10",
		"r1n[1-2].x,r2n1.x":               "r1n1.x r1n2.x r2n1.x",
		"10.0.0.1,10.0.0.2":               "10.0.0.1 10.0.0.2",
		"fd00::1,fd00::2":                 "fd00::1 fd00::2",
		"n123456789012345678901234567890": "n123456789012345678901234567890",
	} {
		require.Equal(t, want, Fold(strings.Fields(names)))
	}
}

func TestSize(t *testing.T) {
	for n, want := range map[uint64]string{0: "0 bytes", 1023: "1023 bytes", 64 << 10: "64 KiB", 3 << 29: "1.5 GiB",
		1 << 43: "8 TiB"} {
		require.Equal(t, want, Size(n))
	}
}

func TestSeverityInJSON(t *testing.T) {
	b, err := json.Marshal(Finding{Severity: Warning})
	require.NoError(t, err)
	require.Contains(t, string(b), `"severity":"warning"`)
}
