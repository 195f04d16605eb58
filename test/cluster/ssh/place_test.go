//go:build cluster

package ssh

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/cpuset"
	"ibrun/test/vcluster/cluster"
	"ibrun/topo"
)

// printAllowed is a shell script for a rank. It prints the rank, and the lists of CPUs and NUMA nodes that the kernel
// allows the rank to use.
const printAllowed = `grep -E '^(Cpus|Mems)_allowed_list' /proc/self/status | tr '\t\n' '  ' | ` +
	`sed "s/^/$IBRUN_RANK /"; echo; sleep 0.3`

var reported = regexp.MustCompile(`(?m)^ibrun: rank (\d+) on (\S+): CPUs (\S+), NUMA nodes (\S+)`)

// TestPlacesOnRestrictedNodes binds ranks on nodes whose cpuset has the first CPU, the last CPU, or all CPUs. With each
// value of --bind-to the ranks must stay inside the cpuset, and --report-bindings must agree with the kernel.
func TestPlacesOnRestrictedNodes(t *testing.T) {
	parallel(t, working)
	c := own(t, cluster.Config{Nodes: 3})
	machine := topo.Read(os.DirFS("/"))
	all := machine.Allowed
	allowed := map[string]cpuset.Set{
		"node0001": cpuset.Of(all.First()), "node0002": cpuset.Of(all.Last()), "node0003": all,
	}
	for name, cpus := range allowed {
		require.NoError(t, c.Restrict(name, cpus.String(), "0"))
	}
	for i, word := range []string{"auto", "none", "hwthread", "core", "l3cache", "numa", "package"} {
		if word == "l3cache" && len(machine.L3s) == 0 {
			continue // this machine has no cache that several cores share
		}
		per := 1 + i%2
		o := ibrun(t, c, "-ppn", fmt.Sprint(per), "--hosts", "node[0001-0003]", "--bind-to", word, "--report-bindings", "sh",
			"-c", printAllowed)
		require.Equal(t, 0, o.code, o.stderr)
		found := reported.FindAllStringSubmatch(o.stderr, -1)
		require.Len(t, found, 3*per, o.stderr)
		for _, f := range found {
			require.Contains(t, o.stdout, fmt.Sprintf("%s Cpus_allowed_list: %s Mems_allowed_list: %s", f[1], f[3],
				f[4]))
			cpus, err := cpuset.ParseList(f[3])
			require.NoError(t, err)
			require.True(t, !cpus.Empty() && cpus.In(allowed[f[2]]), "%s is not in %s", cpus, allowed[f[2]])
		}
	}
	o := ibrun(t, c, "-ppn", "1", "--hosts", "node[0001-0002]", "--cpu-bind", "map_cpu:"+fmt.Sprint(all.First()),
		"true")
	if all.Len() > 1 {
		require.Equal(t, 125, o.code)
		require.Contains(t, o.stderr, "on node0002 could not be started")
	}
}

// TestPlacesByLoad places ranks with --map-by load, for which the nodes report their load. A node with all CPUs must
// get at least as many ranks as a node with one CPU.
func TestPlacesByLoad(t *testing.T) {
	parallel(t, working)
	all := topo.Read(os.DirFS("/")).Allowed
	if all.Len() < 2 {
		t.Fatal("one CPU: nodes cannot differ; run the tests where there are two")
	}
	c := own(t, cluster.Config{Nodes: 2})
	require.NoError(t, c.Restrict("node0001", fmt.Sprint(all.First()), "0"))
	o := ibrun(t, c, "-n", "30", "--hosts", "node[0001-0002]", "--map-by", "load", "sh", "-c", "echo $IBRUN_HOST")
	require.Equal(t, 0, o.code, o.stderr)
	small, large := strings.Count(o.stdout, "node0001\n"), strings.Count(o.stdout, "node0002\n")
	require.Equal(t, 30, small+large)
	t.Logf("%d ranks where one CPU is allowed, %d where there are %d", small, large, all.Len())
	require.GreaterOrEqual(t, large, small) // equal if the machine is so busy that both have next to nothing
	o = ibrun(t, c, "-n", "2", "--hosts", "node0001,nosuchnode", "--map-by", "load", "true")
	require.Equal(t, 125, o.code)
	require.Contains(t, o.stderr, "nosuchnode")
}
