package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// exchanged runs the PMI client as a job and returns what --stats adds up.
func exchanged(t *testing.T, client string, ranks int, args ...string) map[string]int {
	t.Helper()
	o := ibrun(t, append([]string{"--stats=json", "-n", fmt.Sprint(ranks)}, args...)...)
	require.Equal(t, 0, o.code, "%v: %s", args, o.stderr)
	require.Equal(t, fmt.Sprintf("%d ranks exchanged\n", ranks), string(o.stdout))
	var n struct{ Sums map[string]int }
	require.NoError(t, json.Unmarshal([]byte(o.stderr), &n), o.stderr)
	require.Equal(t, ranks, n.Sums["ranks"])
	require.Equal(t, ranks, n.Sums["pmi_puts"])
	return n.Sums
}

// What comes down with a fence is policy, and no policy changes what a get
// answers, over several trees. Each barrier is one message up and one down on
// each edge; a get that can be answered on its node does not leave it.
func TestValuePolicies(t *testing.T) {
	client := pmiClient(t)
	const nodes, ppn, ranks = 20, 2, 40
	for _, c := range []struct {
		how, tree    string
		all          bool
		most, fewest int // questions that leave their nodes
	}{
		{how: "--eager", tree: "kary:3"},
		{how: "--eager", tree: "flat", all: true},
		{how: "--lazy", tree: "kary:2", fewest: 1, most: ranks * 6},
		{how: "--lazy", tree: "chain", all: true, fewest: ranks - ppn, most: nodes * (ranks - ppn)},
		{how: "--lazy", tree: "flat", all: true, fewest: nodes * (ranks - ppn), most: nodes * (ranks - ppn)},
		{how: "--lazy=auto", tree: "kary:3"}, // 16 KiB are carried
		{how: "--lazy=auto", tree: "binomial", all: true},
	} {
		t.Run(strings.TrimLeft(fmt.Sprintf("%s %s all=%t", c.how, c.tree, c.all), "-"), func(t *testing.T) {
			args := []string{"--launcher", "local", "--hosts", fmt.Sprintf("n[01-%d]", nodes), "--tree", c.tree, c.how,
				client}
			if c.all {
				args = append(args, "-all")
			}
			n := exchanged(t, client, ranks, args...)
			require.Equal(t, 3*2*nodes, n["barrier_messages"])
			require.LessOrEqual(t, n["value_questions"], c.most)
			require.GreaterOrEqual(t, n["value_questions"], c.fewest)
			require.Zero(t, n["pmi_bulk_transfers"])
			if c.all {
				require.Equal(t, ranks*(ranks-1), n["pmi_gets"])
			}
		})
	}
	n := exchanged(t, client, 4, client, "-all") // one node
	require.Zero(t, n["value_questions"])
	require.Equal(t, 3*2, n["barrier_messages"])
}
