package job

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func hosts(names ...string) Nodes {
	var runs []Run
	for _, n := range names {
		runs = append(runs, Run{Prefix: n, Count: 1})
	}
	return NewNodes(0, runs)
}

func ranged(count, slots uint32) Run {
	return Run{Prefix: "n", Width: 4, Lo: 1, Count: count, Slots: slots}
}

// perNode lists the ranks of each node.
func perNode(n Nodes) (list []uint32) {
	for i := range n.Len() {
		list = append(list, n.At(i).Ranks)
	}
	return list
}

func TestPlace(t *testing.T) {
	for _, c := range []struct {
		name  string
		alloc Nodes
		want  Want
		per   []uint32
		over  bool
	}{
		{"no slots, no number", hosts("a", "b", "c"), Want{}, []uint32{1, 1, 1}, false},
		{"fewer than hosts", hosts("a", "b", "c"), Want{Ranks: 2}, []uint32{1, 1}, false},
		{"even", hosts("a", "b", "c", "d"), Want{Ranks: 64}, []uint32{16, 16, 16, 16}, false},
		{"uneven", hosts("a", "b", "c"), Want{Ranks: 10}, []uint32{4, 3, 3}, false},
		{"slots filled in order", NewNodes(0, []Run{ranged(3, 4)}), Want{Ranks: 6}, []uint32{4, 2}, false},
		{"slots without number", NewNodes(0, []Run{ranged(3, 4)}), Want{}, []uint32{4, 4, 4}, false},
		{"oversubscribed", NewNodes(0, []Run{ranged(2, 4)}), Want{Ranks: 10}, []uint32{5, 5}, true},
		{"per node", hosts("a", "b"), Want{PerNode: 3}, []uint32{3, 3}, false},
		{"per node and number", hosts("a", "b"), Want{PerNode: 3, Ranks: 4}, []uint32{3, 1}, false},
		{"per node too few", hosts("a", "b"), Want{PerNode: 3, Ranks: 8}, []uint32{4, 4}, false},
		{"offset", NewNodes(0, []Run{ranged(3, 4)}), Want{Ranks: 4, Offset: 6}, []uint32{2, 2}, false},
	} {
		placed, over, err := Place(c.alloc, c.want)
		require.NoError(t, err, c.name)
		require.Equal(t, c.per, perNode(placed), c.name)
		require.Equal(t, c.over, over, c.name)
		require.Equal(t, c.want.Ranks > 0, c.want.Ranks > 0 && uint64(placed.Ranks()) == c.want.Ranks, c.name)
	}
	_, _, err := Place(hosts("a"), Want{Ranks: MaxRanks + 1})
	require.ErrorContains(t, err, "at most")
	_, _, err = Place(hosts("a", "b"), Want{Ranks: 2*MaxRanksOnNode + 1})
	require.ErrorContains(t, err, "65536 ranks on a: at most 65535")
	_, _, err = Place(hosts("a"), Want{Offset: 1})
	require.ErrorContains(t, err, "leaves nothing")
}

func TestNodesArithmetic(t *testing.T) {
	n := NewNodes(100, []Run{
		{Prefix: "a", Count: 1, Ranks: 3},
		{Prefix: "n", Suffix: "-ib", Width: 2, Lo: 8, Count: 5, Ranks: 2},
		{Prefix: "z", Count: 1, Ranks: 1},
	})
	require.Equal(t, 7, n.Len())
	require.Equal(t, uint32(14), n.Ranks())
	require.Equal(t, "n10-ib", n.At(3).Host)
	for lo := range n.Len() {
		for hi := lo + 1; hi <= n.Len(); hi++ {
			s := n.Slice(lo, hi)
			require.Equal(t, hi-lo, s.Len())
			for i := range s.Len() {
				require.Equal(t, n.At(lo+i), s.At(i))
			}
		}
	}
	for i := range n.Len() {
		node := n.At(i)
		require.Equal(t, i, n.Index(node.Host))
		for r := range node.Ranks {
			require.Equal(t, i, n.NodeOf(node.First+Slot(r)))
		}
	}
	require.Equal(t, -1, n.NodeOf(99))
	require.Equal(t, -1, n.NodeOf(114))
	require.Equal(t, -1, n.Index("n7-ib"))
	require.Equal(t, -1, n.Index("n010-ib"))
}

func TestRunsAreJoined(t *testing.T) {
	n := NewNodes(0, []Run{ranged(2, 0), {Prefix: "n", Width: 4, Lo: 3, Count: 4}, {}})
	require.Len(t, n.Runs(), 1)
	require.Equal(t, 6, n.Len())
}

func TestUniqueAddsSlots(t *testing.T) {
	n := NewNodes(0, []Run{{Prefix: "a", Count: 1, Slots: 2}, {Prefix: "b", Count: 1},
		{Prefix: "a", Count: 1}}).Unique()
	require.Equal(t, 2, n.Len())
	require.Equal(t, uint32(3), n.At(0).Slots)
}

func TestMergeRuns(t *testing.T) {
	got := MergeRuns([]StatusRun{{First: 4, Count: 4}, {First: 0, Count: 4},
		{First: 8, Count: 1, Status: Status{Code: 7}}})
	require.Equal(t, []StatusRun{{First: 0, Count: 8}, {First: 8, Count: 1, Status: Status{Code: 7}}}, got)
}

func TestExitCodes(t *testing.T) {
	for want, s := range map[int]Status{
		0: {}, 7: {Code: 7}, 255: {Code: 255}, 137: {Kind: Signaled, Code: 9}, 139: {Kind: Signaled, Code: 11},
		127: {Kind: NotRun, Code: 127}, 125: {Kind: Lost},
	} {
		require.Equal(t, want, s.ExitCode())
	}
}

func TestHostList(t *testing.T) {
	n := NewNodes(5, []Run{
		{Prefix: "n", Width: 2, Lo: 9, Count: 2, Ranks: 3},
		{Prefix: "n", Width: 2, Lo: 11, Count: 1, Ranks: 1, User: "u"},
		{Prefix: "front", Count: 1, HCA: "mlx5_0"}, {Prefix: "m", Suffix: "-ib", Width: 1, Lo: 3, Count: 1},
	})
	require.Equal(t, "n[09-11],front,m3-ib", n.HostList())
	require.Empty(t, Nodes{}.HostList())
}
