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
			nodes += placed.At(int(layout.NodeOf(layout.Seat(rank)))).Host
		}
		require.Equal(t, c.nodes, nodes, c.groups)
		require.Equal(t, c.over, over, c.groups)
		require.Equal(t, placed.Ranks(), layout.Ranks())
	}
	_, _, _, err := PlaceEach([]Group{{lettered("a"), MaxRanks}, {lettered("b"), 1}}, Want{}, 0)
	require.ErrorContains(t, err, "at most")
}
