package plan

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/job"
	"ibrun/topo/topotest"
)

// ranksByNode shows which ranks each node of a plan has, by place.
func ranksByNode(p *Plan) string {
	var nodes []string
	for i := range p.Nodes.Len() {
		n := p.Nodes.At(i)
		var ranks []string
		for k := range n.Ranks {
			ranks = append(ranks, fmt.Sprint(p.Job.Layout.Rank(n.First+job.Slot(k))))
		}
		nodes = append(nodes, n.Host+"="+strings.Join(ranks, ","))
	}
	return strings.Join(nodes, " ")
}

// What ranks are mapped by and what they are numbered by are two things.
func TestRankBy(t *testing.T) {
	ranger := t.TempDir()
	require.NoError(t, os.CopyFS(ranger, topotest.Ranger.Files()))
	for line, want := range map[string]string{
		"-n 6 -H a:4,b:4":                                          "a=0,1,2,3 b=4,5",
		"-n 6 -H a:4,b:4 --rank-by slot":                           "a=0,1,2,3 b=4,5",
		"-n 6 -H a:4,b:4 --rank-by node":                           "a=0,2,4,5 b=1,3",
		"-n 6 -H a:4,b:4 --map-by node":                            "a=0,2,4 b=1,3,5",
		"-n 6 -H a:4,b:4 --map-by node --rank-by slot":             "a=0,1,2 b=3,4,5",
		"-n 6 -H a:4,b:4 --map-by node --rank-by fill":             "a=0,1,2 b=3,4,5",
		"-n 6 -H a:4,b:4 --map-by node --rank-by core":             "a=0,1,2 b=3,4,5",
		"-n 6 -H a:4,b:4 --map-by node --rank-by node":             "a=0,2,4 b=1,3,5",
		"-n 6 -H a:4,b:4 -m cyclic":                                "a=0,2,4 b=1,3,5",
		"-n 6 -H a:4,b:4 -m block":                                 "a=0,1,2,3 b=4,5",
		"-n 6 -H a:4,b:4 -m block,Pack":                            "a=0,1,2,3 b=4,5",
		"-n 6 -H a:4,b:4 -m block,NoPack":                          "a=0,1,2 b=3,4,5",
		"-n 6 -H a:4,b:4 -m cyclic,NoPack":                         "a=0,2,4 b=1,3,5",
		"-n 6 -H a:4,b:4 -m *,NoPack":                              "a=0,1,2 b=3,4,5",
		"-n 12 -H a:8,b:8 --map-by package --rank-by span":         "a=0,1,2,3,8,9,10,11 b=4,5,6,7",
		"-n 8 -H a:4,b:4 --map-by ppr:2:package --rank-by span":    "a=0,1,2,3,4,5,6,7",
		"-n 16 -ppn 8 -H a,b --map-by package:SPAN --rank-by span": "a=0,1,2,3,8,9,10,11 b=4,5,6,7,12,13,14,15",
	} {
		if strings.Contains(line, "package") {
			line += " --topo-input " + ranger
		}
		places(t, map[string]string{line + " --dry-run true": want})
	}
	for line, want := range map[string]job.Binding{
		"--rank-by package":                              {Rank: job.Package},
		"--map-by core --rank-by socket":                 {Map: job.Core, Rank: job.Package},
		"--map-by ppr:1:numa -ppn 2 --rank-by hwthread":  {Map: job.NUMA, PerObj: 1, Rank: job.HWThread},
		"--map-by package --rank-by span -H a --dry-run": {Map: job.Package, Rank: job.Package},
		"-m block:cyclic:cyclic":                         {Map: job.Package},
		"-m block:fcyclic":                               {Map: job.Package},
		"-m block:block:*":                               {Map: job.Core},
	} {
		require.Equal(t, want, mustPlan(t, append(strings.Fields(line), "true")...).Job.Binding, line)
	}
}

func TestNoOversubscribe(t *testing.T) {
	for _, word := range []string{"--nooversubscribe", "--map-by slot:NOOVERSUBSCRIBE"} {
		for line, why := range map[string]string{
			"-n 4 -H a:1":            "a would get 4 ranks on 1 slot, which",
			"-n 4 -H a":              "a would get 4 ranks on 1 slot, which",
			"-n 5 -H a:2,b:2":        "a would get 3 ranks on 2 slots, which",
			"-n 4 -ppn 4 -H a:2,b:2": "a would get 4 ranks on 2 slots, which",
			"-n 60000":               "login1.cluster would get 60000 ranks on ",
		} {
			refuses(t, map[string]string{word + " " + line + " true": why})
		}
		for _, line := range []string{
			"-n 3 -o 1 -H a:2,b:2,c:2", "-n 4 -H a:2,b:2", "-H n[1-8]:3", "-n 1", "-n 3 -H a:2,b:1 -m cyclic",
		} {
			mustPlan(t, strings.Fields(word+" "+line+" true")...)
		}
	}
}
