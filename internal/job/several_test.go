package job

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// lettered makes an allocation of one-letter hosts: "a:2 b".
func lettered(text string) Nodes {
	var runs []Run
	for _, word := range strings.Fields(text) {
		r := Run{Prefix: word[:1], Count: 1}
		if len(word) > 2 {
			r.Slots = uint32(word[2] - '0')
		}
		runs = append(runs, r)
	}
	return NewNodes(0, runs).Unique()
}

func TestPlaceEach(t *testing.T) {
	for _, c := range []struct {
		groups string // ranks@hosts, separated by commas
		want   Want
		plane  uint32
		nodes  string // of each rank
		over   bool
	}{
		{groups: "1@a,1@b", nodes: "ab"},
		{groups: "2@a:2 b:2,3@c:4", nodes: "aaccc"},
		{groups: "2@b,1@a", nodes: "bba"},
		{groups: "2@a b,2@a", nodes: "abaa"},
		{groups: "1@a b,1@a b", nodes: "ab"},                   // the second takes what is left
		{groups: "2@a b,2@a b", nodes: "abab"},                 // nothing is left
		{groups: "1@a:2 b,2@a b:2", nodes: "aab"},              // a has one slot left
		{groups: "2@a:2,2@a:2", nodes: "aaaa", over: true},     // the machine has no more for being named twice
		{groups: "4@a:4 b:4,4@a:4 b:4", nodes: "aaaabbbb"},     //
		{groups: "4@a:4 b:4,2@c:2", plane: 1, nodes: "aaaacc"}, // numbered by node, placed by slot
		{groups: "4@a:4 b:4,3@c:4 a:4", want: Want{Plane: 1}, plane: 1, nodes: "ababcac"},
		{groups: "4@a b,2@b c", want: Want{PerNode: 2}, nodes: "aabbbb"},
		{groups: "3@a:2,1@b", nodes: "aaab", over: true},
		{groups: "1@a,1@b,1@a,1@b", nodes: "abab"},
	} {
		var groups []Group
		for _, text := range strings.Split(c.groups, ",") {
			var g Group
			ranks, list, _ := strings.Cut(text, "@")
			_, err := fmt.Sscan(ranks, &g.Ranks)
			require.NoError(t, err)
			g.Alloc = lettered(list)
			groups = append(groups, g)
		}
		placed, layout, over, err := PlaceEach(groups, c.want, c.plane)
		require.NoError(t, err)
		var nodes string
		for rank := range layout.Ranks() {
			nodes += placed.At(int(layout.NodeOf(layout.Slot(Rank(rank))))).Host
		}
		require.Equal(t, c.nodes, nodes, c.groups)
		require.Equal(t, c.over, over, c.groups)
		require.Equal(t, placed.Ranks(), layout.Ranks())
	}
	_, _, _, err := PlaceEach([]Group{{lettered("a"), MaxRanks}, {lettered("b"), 1}}, Want{}, 0)
	require.ErrorContains(t, err, "at most")
}

func TestPlaceAt(t *testing.T) {
	alloc := NewNodes(0, []Run{{Prefix: "n", Width: 1, Lo: 1, Count: 3, Slots: 2}, {Prefix: "x", Count: 1}})
	placed, layout := PlaceAt(alloc, []uint32{2, 0, 2, 3, 1})
	var hosts []string
	for rank := range layout.Ranks() {
		hosts = append(hosts, placed.At(int(layout.NodeOf(layout.Slot(Rank(rank))))).Host)
	}
	require.Equal(t, []string{"n3", "n1", "n3", "x", "n2"}, hosts)
	require.Equal(t, "n3", placed.At(0).Host)
	placed, layout = PlaceAt(alloc, []uint32{0, 0, 1})
	require.True(t, layout.Plain())
	require.Equal(t, 2, placed.Len())
}

func TestEachNodeGetsARank(t *testing.T) {
	for _, c := range []struct {
		hosts string
		ranks uint64
		want  []uint32
	}{
		{"a:4 b:1 c:1", 6, []uint32{4, 1, 1}}, // srun -N3 -n6 on three nodes of which the first has four CPUs
		{"a:4 b:4 c:4", 6, []uint32{4, 1, 1}},
		{"a:4 b:4 c:4", 7, []uint32{4, 2, 1}},
		{"a:4 b:4 c:4", 3, []uint32{1, 1, 1}},
		{"a:4 b:4 c:4", 2, []uint32{2}},
		{"a:2 b c:3", 4, []uint32{2, 1, 1}},
		{"a:2 b c:3", 6, []uint32{2, 1, 3}},
		{"a:2 b c:3", 8, []uint32{3, 1, 4}}, // too many: shares
	} {
		placed, _, err := Place(lettered(c.hosts), Want{Ranks: c.ranks, Each: true})
		require.NoError(t, err)
		var got []uint32
		for i := range placed.Len() {
			got = append(got, placed.At(i).Ranks)
		}
		require.Equal(t, c.want, got, "%d on %s", c.ranks, c.hosts)
	}
}

// Applications are told by their numbers, in whatever order their programs come.
func TestApps(t *testing.T) {
	j := Job{Programs: []Program{
		{Count: 1, App: 1}, {First: 1, Count: 2}, {First: 3, Count: 1, App: 1, Offset: 1}, {First: 4, Count: 1, App: 3},
	}}
	sizes, firsts := j.Apps()
	require.Equal(t, []uint32{2, 2, 0, 1}, sizes, "no rank runs the third")
	require.Equal(t, []Rank{1, 0, 0, 4}, firsts)
	require.Equal(t, "2 2 0 1", Words(sizes))

	one := Job{Size: 1, Nodes: 1, Layout: NewLayout([]Share{{Nodes: 1, Ranks: 1}})}
	one.Programs = []Program{{Count: 1, App: MaxRanks - 1, Argv: []string{"a"}}}
	require.NoError(t, one.Verify())
	one.Programs[0].App++
	require.ErrorContains(t, one.Verify(), "application 16777216")
}
