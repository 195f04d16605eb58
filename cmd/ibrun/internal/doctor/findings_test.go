package doctor

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// examinedNode is a node with two ports.
func examinedNode(name string, lid uint32, load float64) Node {
	return Node{Name: name, How: "ssh", Answer: load / 10, Report: &Report{
		Host: name, Boot: name, Kernel: "6.1", Machine: "x86_64", Binary: "/x",
		CPUs:    CPUs{Online: "0-7", Allowed: "0-3", Many: 4, Quota: 2.5, Load: load},
		Memory:  Memory{Total: 16 << 30, Available: 8 << 30},
		Memlock: Limit{Soft: Unlimited, Hard: Unlimited},
		Files:   Limit{Soft: 4096, Hard: 4096},
		Data:    Route{Addr: name, Interface: "eth0", MTU: 9000, Speed: 25000},
		HCAs: []HCA{{Name: "mlx5_0", Ports: []Port{
			{Number: 1, State: "ACTIVE", Layer: "InfiniBand", Rate: 100, LID: lid},
			{Number: 2, State: "DOWN", Layer: "Ethernet", Rate: 25, MTU: 1500},
		}}},
	}}
}

// wantTable is the table without the blanks that end its lines.
const wantTable = `
nodes  reached        kernel      CPUs                   load     memory free     data path              memlock    RDMA
n1,n3  ssh 0.1-0.2 s  6.1 x86_64  0-3 of 0-7, quota 2.5  0.5-2.5  50 % of 16 GiB  eth0 mtu 9000 25 Gb/s  unlimited  mlx5_0:1 ACTIVE InfiniBand 100 Gb/s LID 27-40
                                                                                                                    mlx5_0:2 DOWN Ethernet 25 Gb/s mtu 1500
n2     not: connect
n10    here 0.0 s     5.4 x86_64  0                      0.0      0 % of 0 bytes  none                   64 KiB     none
`

func TestTableOfFindings(t *testing.T) {
	nodes := []Node{
		examinedNode("n1", 27, 0.5),
		{Name: "n2", How: "ssh", Lost: &Lost{Phase: "connect"}},
		examinedNode("n3", 40, 2.5),
		{Name: "n10", How: "here", Report: &Report{
			Kernel: "5.4", Machine: "x86_64", CPUs: CPUs{Online: "0", Allowed: "0"},
			Data: Route{Fault: "none"}, Memlock: Limit{Soft: 65536},
		}},
	}
	var b strings.Builder
	writeTable(&b, tableOf(nodes))
	got := "\n"
	for line := range strings.Lines(b.String()) {
		got += strings.TrimRight(line, " \n") + "\n"
	}
	require.Equal(t, wantTable, got)
	require.Equal(t, 2, len(nodes[0].Report.HCAs[0].Ports), "the nodes are left as they were")
}

func TestFindingsForTheUser(t *testing.T) {
	nodes := []Node{{Name: "n1", Lost: &Lost{Phase: "start", Tail: "one\ntwo\nthree\r\nfour \x1b[2J\n"}}}
	found := []Finding{
		{Severity: Error, Subject: "launch", Nodes: []string{"n1"}, Text: "was not", Hint: "this"},
		{Severity: Note, Subject: "kernel", Nodes: []string{"n1"}, Text: "differs"},
	}
	var all, brief strings.Builder
	require.NoError(t, Print(&all, nodes, found, false))
	listed := all.String()[strings.Index(all.String(), "error "):]
	require.Equal(t, `error    n1: launch: was not
           hint: this
           | two
           | three
           | four \x1b[2J
note     n1: kernel: differs
0 nodes examined, 1 not: 1 error, 0 warnings, 1 note
`, listed)
	require.NoError(t, Print(&brief, nodes, found, true))
	require.NotContains(t, brief.String(), "kernel: differs")
	require.Contains(t, brief.String(), "1 note\n", "they are counted all the same")
}

func TestFindingsInJSON(t *testing.T) {
	var b strings.Builder
	require.NoError(t, WriteJSON(&b, []Node{examinedNode("n1", 27, 1)}, nil))
	var all map[string]any
	require.NoError(t, json.Unmarshal([]byte(b.String()), &all))
	require.Equal(t, []any{}, all["findings"])
	require.Len(t, all["nodes"], 1)
	require.Equal(t, 1, strings.Count(b.String(), "\n"), "one line")
}
