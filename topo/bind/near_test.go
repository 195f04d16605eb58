package bind

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/cpuset"
	"ibrun/topo"
)

// nodes makes a machine of NUMA nodes with four CPUs each.
func nodes(n int, hcas ...topo.HCA) *topo.Machine {
	m := &topo.Machine{Online: cpuset.Span(0, 4*n-1), HCAs: hcas}
	for i := range n {
		m.Memories = append(m.Memories, topo.Memory{Object: topo.Object{ID: i, CPUs: cpuset.Span(4*i, 4*i+3)}})
	}
	return m
}

// distances gives a machine the kernel's table.
func distances(m *topo.Machine, table ...[]int) *topo.Machine {
	for i, row := range table {
		m.Memories[i].Distance = row
	}
	return m
}

// hca makes a device on a NUMA node; ports are as in port.
func hca(name string, node int, ports ...string) topo.HCA {
	h := topo.HCA{Name: name, Place: topo.Place{NUMA: node, PCI: []string{"pci0000:" + name, "0000:00:00.0"}}}
	for i, text := range ports {
		h.Ports = append(h.Ports, port(i+1, text))
	}
	return h
}

// port makes one of a state and, for what is not 100 Gb/s InfiniBand, words.
func port(number int, text string) topo.Port {
	state, words, _ := strings.Cut(text, " ")
	p := topo.Port{Number: number, State: state, Layer: "InfiniBand", LID: uint32(number), Rate: 100}
	for word := range strings.FieldsSeq(words) {
		switch word {
		case "roce":
			p.Layer, p.LID = "Ethernet", 0
		case "old":
			p.Layer = ""
		case "lidless":
			p.LID = 0
		default:
			_, err := fmt.Sscanf(word, "%gG", &p.Rate)
			if err != nil {
				panic(err)
			}
		}
	}
	return p
}

// nowhere makes a device whose NUMA node is not known, with what else is.
func nowhere(h topo.HCA, cpus cpuset.Set, pci ...string) topo.HCA {
	h.NUMA, h.CPUs, h.PCI = -1, cpus, pci
	return h
}

// ranks makes places of lists; "-" is a rank that is not bound.
func ranks(t *testing.T, lists string) (places []cpuset.Set) {
	for list := range strings.FieldsSeq(lists) {
		s, err := cpuset.ParseList(strings.TrimPrefix(list, "-"))
		require.NoError(t, err)
		places = append(places, s)
	}
	return places
}

func eight() []topo.HCA {
	var hcas []topo.HCA
	for i := range 8 {
		hcas = append(hcas, hca(fmt.Sprint("mlx5_", i), i/2, "ACTIVE"))
	}
	return hcas
}

func TestPorts(t *testing.T) {
	siw := hca("siw0", -1, "ACTIVE roce")
	siw.PCI = nil
	iwarp := hca("irdma0", 0, "ACTIVE roce")
	iwarp.IWARP = true
	table := [][]int{{10, 12, 32, 32}, {12, 10, 32, 32}, {32, 32, 10, 12}, {32, 32, 12, 10}}
	both := nodes(2, hca("mlx5_0", 0, "ACTIVE"), hca("mlx5_1", 1, "ACTIVE"))
	root := nodes(2, hca("mlx5_0", 0, "ACTIVE"), nowhere(hca("mlx5_1", 0, "ACTIVE"), cpuset.Set{}, "pci0000:80",
		"0000:81:00.0"))
	root.Links = []topo.Link{{Name: "eth0", Place: topo.Place{NUMA: 1, PCI: []string{"pci0000:80", "0000:82:00.0"}}}}
	for name, c := range map[string]struct {
		m     *topo.Machine
		want  string // --hca
		ranks string
		ports string
	}{
		"no HCA":               {nodes(2), "", "0 4 -", ". . ."},
		"one":                  {nodes(2, hca("a", 1, "ACTIVE")), "", "0 4 0-7 -", "a:1 a:1 a:1 a:1"},
		"all down":             {nodes(1, hca("a", 0, "DOWN", "INIT"), hca("b", 0, "ARMED")), "", "0 1", ". ."},
		"down is never chosen": {nodes(2, hca("a", 0, "DOWN"), hca("b", 1, "ACTIVE")), "", "0 1 4", "b:1 b:1 b:1"},
		"second port only":     {nodes(1, hca("a", 0, "DOWN", "ACTIVE")), "", "0", "a:2"},
		"two nodes":            {both, "", "0 4 1 5 2 6", "mlx5_0:1 mlx5_1:1 mlx5_0:1 mlx5_1:1 mlx5_0:1 mlx5_1:1"},
		"over both nodes":      {both, "", "2-5 2-5 2-5 0", "mlx5_0:1 mlx5_1:1 mlx5_0:1 mlx5_0:1"},
		"not bound":            {both, "", "- - - -", "mlx5_0:1 mlx5_1:1 mlx5_0:1 mlx5_1:1"},
		"eight ranks, two equal": {nodes(1, hca("a", 0, "ACTIVE"), hca("b", 0, "ACTIVE")), "", "0 1 2 3 0 1 2 3",
			"a:1 b:1 a:1 b:1 a:1 b:1 a:1 b:1"},
		"devices before ports": {nodes(1, hca("a", 0, "ACTIVE", "ACTIVE"), hca("b", 0, "ACTIVE", "ACTIVE")), "",
			"0 1 2 3 0", "a:1 b:1 a:2 b:2 a:1"},
		"ragged ports": {nodes(1, hca("a", 0, "ACTIVE", "ACTIVE", "ACTIVE"), hca("b", 0, "DOWN", "ACTIVE")),
			"", "0 1 2 3", "a:1 b:2 a:2 a:3"},
		"eight HCAs": {nodes(4, eight()...), "", "0 1 4 5 8 9 12 13",
			"mlx5_0:1 mlx5_1:1 mlx5_2:1 mlx5_3:1 mlx5_4:1 mlx5_5:1 mlx5_6:1 mlx5_7:1"},
		"four of eight": {nodes(4, eight()...), "mlx5_7,mlx5_0,mlx5_6:1", "0 4 8 12 13",
			"mlx5_0:1 mlx5_7:1 mlx5_0:1 mlx5_7:1 mlx5_6:1"},
		"nearest of the far": {distances(nodes(4, hca("a", 1, "ACTIVE"), hca("b", 3, "ACTIVE")), table...), "",
			"0 4 8 12", "a:1 a:1 b:1 b:1"},
		"far ones tie": {nodes(4, hca("a", 1, "ACTIVE"), hca("b", 3, "ACTIVE")), "", "0 4 8 12",
			"a:1 a:1 b:1 b:1"},
		"known before unknown": {nodes(2, nowhere(hca("a", 0, "ACTIVE"), cpuset.Set{}, "pci0000:00"),
			hca("b", 1, "ACTIVE")), "", "0 4 -", "b:1 b:1 a:1"},
		"all unknown": {nodes(2, nowhere(hca("a", 0, "ACTIVE"), cpuset.Set{}), nowhere(hca("b", 0, "ACTIVE"),
			cpuset.Set{})), "", "0 4 5", "a:1 b:1 a:1"},
		"by local CPUs": {nodes(2, nowhere(hca("a", 0, "ACTIVE"), cpuset.Span(4, 7)),
			nowhere(hca("b", 0, "ACTIVE"), cpuset.Span(0, 3))), "", "0 4", "b:1 a:1"},
		"all CPUs say nothing": {nodes(2, nowhere(hca("a", 0, "ACTIVE"), cpuset.Span(0, 7)), hca("b", 1, "ACTIVE")),
			"", "0 4", "b:1 b:1"},
		"by the root bus":        {root, "", "0 4", "mlx5_0:1 mlx5_1:1"},
		"node that is not there": {nodes(2, hca("a", 7, "ACTIVE"), hca("b", 0, "ACTIVE")), "", "0 4", "b:1 b:1"},
		"one node, one unknown": {nodes(1, hca("a", 0, "ACTIVE"), nowhere(hca("b", 0, "ACTIVE"), cpuset.Set{})), "",
			"0 1", "a:1 b:1"},
		"InfiniBand before RoCE": {nodes(1, hca("a", 0, "ACTIVE roce 400G"), hca("b", 0, "ACTIVE")), "", "0 1",
			"b:1 b:1"},
		"slow InfiniBand": {nodes(2, hca("a", 0, "ACTIVE 40G"), hca("b", 1, "ACTIVE 200G")), "", "0 4",
			"b:1 b:1"},
		"half is not slow": {nodes(2, hca("a", 0, "ACTIVE 100G"), hca("b", 1, "ACTIVE 200G")), "", "0 4",
			"a:1 b:1"},
		"RoCE": {nodes(2, hca("a", 0, "ACTIVE roce 25G"), hca("b", 1, "ACTIVE roce 100G")), "", "0 4",
			"b:1 b:1"},
		"management alone": {nodes(1, hca("a", 0, "ACTIVE roce 2.5G")), "", "0", "."},
		"software alone":   {nodes(1, siw), "", "0", "."},
		"iWARP alone":      {nodes(1, iwarp), "", "0", "."},
		"no LID": {nodes(1, hca("a", 0, "ACTIVE lidless"), hca("b", 0, "ACTIVE")), "", "0 1",
			"b:1 b:1"},
		"old kernel":         {nodes(1, hca("a", 0, "ACTIVE old")), "", "0", "a:1"},
		"rates not known":    {nodes(1, hca("a", 0, "ACTIVE 0G"), hca("b", 0, "ACTIVE 0G")), "", "0 1", "a:1 b:1"},
		"software on demand": {nodes(1, siw, hca("b", 0, "ACTIVE")), "siw0", "0 1", "siw0:1 siw0:1"},
		"slow on demand": {nodes(1, hca("a", 0, "ACTIVE lidless 2.5G"), hca("b", 0, "ACTIVE")), "a:1, b", "0 1",
			"a:1 b:1"},
		"active ports of a name": {nodes(1, hca("a", 0, "DOWN", "ACTIVE", "ACTIVE")), "a", "0 1", "a:2 a:3"},
		"the order of --hca": {nodes(1, hca("a", 0, "ACTIVE", "ACTIVE"), hca("b", 0, "ACTIVE")), "b,a:2,a:2",
			"0 1 2", "b:1 a:2 b:1"},
	} {
		t.Run(name, func(t *testing.T) {
			choices, err := Ports(c.m, c.want, ranks(t, c.ranks))
			require.NoError(t, err)
			var got []string
			for _, choice := range choices {
				got = append(got, choice.String())
				if choice.HCA == nil {
					got[len(got)-1] = "."
				}
			}
			require.Equal(t, strings.Fields(c.ports), got)
		})
	}
}

// Why no port is taken by itself names those that are active.
func TestNone(t *testing.T) {
	rxe := hca("rxe0", -1, "ACTIVE roce")
	rxe.PCI = nil
	iwarp := hca("irdma0", 0, "ACTIVE roce")
	iwarp.IWARP = true
	for want, m := range map[string]*topo.Machine{
		"": nodes(1, rxe, hca("mlx5_0", 0, "ACTIVE")),
		"no InfiniBand or RoCE port is active: this node has no HCA":               nodes(1),
		"no InfiniBand or RoCE port is active: this node has mlx5_0 (port 1 DOWN)": nodes(1, hca("mlx5_0", 0, "DOWN")),
		"port rxe0:1 is active, but it is made in software, which is slower than the sockets below it: --hca chooses " +
			"a port nevertheless": nodes(1, rxe, hca("mlx5_0", 0, "DOWN")),
		"port a:1 is active, but it has no LID: no subnet manager has configured it; port b:2 is active, but it has " +
			"2.5 Gb/s; port irdma0:1 is active, but it speaks iWARP, which has no datagrams: --hca chooses a port " +
			"nevertheless": nodes(1,
			hca("a", 0, "ACTIVE lidless"), hca("b", 0, "DOWN", "ACTIVE roce 2.5G"), iwarp),
	} {
		require.Equal(t, want, None(m))
	}
}

func TestUnknownPorts(t *testing.T) {
	m := nodes(2, hca("mlx4_0", 0, "ACTIVE", "DOWN"), hca("mlx4_1", 0, "DOWN", ""))
	const has = "this node has mlx4_0 (port 1 ACTIVE, port 2 DOWN), mlx4_1 (port 1 DOWN, port 2 in a state that is " +
		"not known); see them with: ibrun --display topo"
	for want, text := range map[string]string{
		"mlx5_9":        "--hca mlx5_9: " + has,
		"mlx4_0,mlx5_9": "--hca mlx5_9: " + has,
		"mlx4_0:1,":     "--hca : " + has,
		"mlx4_0:2":      "--hca mlx4_0:2: the port is not active: " + has,
		"mlx4_0:3":      "--hca mlx4_0:3: there is no such port: " + has,
		"mlx4_0:":       "--hca mlx4_0:: there is no such port: " + has,
		"mlx4_0:01":     "--hca mlx4_0:01: there is no such port: " + has,
		"mlx4_0:1:1":    "--hca mlx4_0:1:1: there is no such port: " + has,
		"mlx4_1":        "--hca mlx4_1: it has no active port: " + has,
	} {
		_, err := Ports(m, want, nil)
		require.EqualError(t, err, text)
	}
	_, err := Ports(nodes(1), "mlx5_0", nil)
	require.EqualError(t, err, "--hca mlx5_0: this node has no HCA; see them with: ibrun --display topo")
}

// On any machine a rank has one of its nearest active ports, and of the ranks
// that tie between the same ports each port has as many as any other, or one
// less.
func TestFairness(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 4))
		n := 1 + r.IntN(4)
		var hcas []topo.HCA
		for i := range r.IntN(9) {
			hcas = append(hcas, hca(fmt.Sprint("mlx5_", i), r.IntN(n+1)-1, []string{"ACTIVE", "DOWN"}[r.IntN(2)],
				[]string{"ACTIVE", "DOWN"}[r.IntN(2)]))
		}
		m := nodes(n, hcas...)
		var places []cpuset.Set
		for range r.IntN(40) {
			places = append(places, cpuset.Of(r.IntN(4*n), r.IntN(4*n)))
		}
		choices, err := Ports(m, "", places)
		require.NoError(t, err)
		given := map[string]map[string]int{} // by the ports of a tie, then by port
		for i, c := range choices {
			least, nearest := unknown, []string{}
			for _, h := range m.HCAs {
				for _, p := range h.Ports {
					d := distance(m, places[i], home(m, h.Place))
					if !p.Active() || d > least {
						continue
					}
					if d < least {
						least, nearest = d, nil
					}
					nearest = append(nearest, fmt.Sprintf("%s:%d", h.Name, p.Number))
				}
			}
			if len(nearest) == 0 {
				require.Equal(t, Choice{}, c)
				continue
			}
			require.Contains(t, nearest, c.String())
			key := fmt.Sprint(nearest)
			if given[key] == nil {
				given[key] = map[string]int{}
				for _, port := range nearest {
					given[key][port] = 0
				}
			}
			given[key][c.String()]++
		}
		for tie, ports := range given {
			counts := slices.Sorted(maps.Values(ports))
			require.LessOrEqual(t, counts[len(counts)-1]-counts[0], 1, tie)
		}
	}
}

func TestLink(t *testing.T) {
	m := distances(nodes(4), []int{10, 12, 32, 32}, []int{12, 10, 32, 32}, []int{32, 32, 10, 12}, []int{32, 32, 12, 10})
	for i, node := range []int{0, 2, 2, -1} {
		m.Links = append(m.Links, topo.Link{Name: fmt.Sprint("eth", i), Place: topo.Place{NUMA: node}})
	}
	for _, c := range []struct{ cpus, candidates, link string }{
		{"0", "eth0 eth1", "eth0"},
		{"4-7", "eth1 eth0", "eth0"},
		{"12", "eth0 eth1 eth2", "eth1"},
		{"12", "eth0 eth2 eth1", "eth2"},
		{"0-15", "eth2 eth0", "eth2"},
		{"-", "eth1 eth0", "eth1"},
		{"0", "eth3 eth1", "eth1"},
		{"0", "eth9 eth3", "eth9"},
		{"0", "", ""},
	} {
		require.Equal(t, c.link, Link(m, ranks(t, c.cpus)[0], strings.Fields(c.candidates)), c)
	}
}

func TestEnv(t *testing.T) {
	ib, roce, opa, renamed := hca("mlx4_0", 0, "DOWN", "ACTIVE"), hca("mlx5_3", 0, "ACTIVE roce"),
		hca("hfi1_1", 0, "ACTIVE"), hca("opap3s0", 0, "ACTIVE")
	odd := hca("hfi1_x", 0, "ACTIVE")
	for _, c := range []struct {
		choice    Choice
		link, env string
	}{
		{Choice{}, "", ""},
		{Choice{}, "eth0", "NCCL_SOCKET_IFNAME==eth0 GLOO_SOCKET_IFNAME=eth0 FI_TCP_IFACE=eth0"},
		{
			Choice{&ib, &ib.Ports[1]}, "ib0",
			"IBRUN_HCA=mlx4_0:2 NCCL_IB_HCA==mlx4_0:2 UCX_NET_DEVICES=mlx4_0:2 MV2_IBA_HCA=mlx4_0 MV2_DEFAULT_PORT=2 " +
				"FI_VERBS_DEVICE_NAME=mlx4_0 NCCL_SOCKET_IFNAME==ib0 GLOO_SOCKET_IFNAME=ib0 FI_TCP_IFACE=ib0",
		},
		{
			Choice{&roce, &roce.Ports[0]}, "",
			"IBRUN_HCA=mlx5_3:1 NCCL_IB_HCA==mlx5_3:1 UCX_NET_DEVICES=mlx5_3:1 MV2_IBA_HCA=mlx5_3 MV2_DEFAULT_PORT=1 " +
				"FI_VERBS_DEVICE_NAME=mlx5_3 PSM3_NIC=mlx5_3",
		},
		{Choice{&opa, &opa.Ports[0]}, "", "IBRUN_HCA=hfi1_1:1 NCCL_IB_HCA==hfi1_1:1 HFI_UNIT=1 FI_OPX_HFI_SELECT=1"},
		{Choice{&renamed, &renamed.Ports[0]}, "", "IBRUN_HCA=opap3s0:1 NCCL_IB_HCA==opap3s0:1"},
		{Choice{&odd, &odd.Ports[0]}, "", "IBRUN_HCA=hfi1_x:1 NCCL_IB_HCA==hfi1_x:1"},
	} {
		require.Equal(t, strings.Fields(c.env), append([]string{}, c.choice.Env(c.link)...))
	}
}
