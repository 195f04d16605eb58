package e2e

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/test/launch"
	"ibrun/topo"
	"ibrun/topo/show"
	"ibrun/topo/topotest"
)

// reported matches a line of --report-bindings.
var reported = regexp.MustCompile(`(?m)^ibrun: rank (\d+) on \S+: CPUs (\S+), NUMA nodes (\S+)`)

// TestTopoInput passes a folder to --topo-input that describes a machine of four packages with four cores each, as the
// nodes of the cluster Ranger had. --display topo must print the machine that topo.Read returns for the folder. A dry
// run must bind ranks to the cores of that machine.
func TestTopoInput(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, topotest.Ranger.Files()))
	shown := launch.Ibrun(t, "--display", "topo", "--json", "--topo-input", dir)
	want, err := show.JSON(topo.Read(os.DirFS(dir)))
	require.NoError(t, err)
	require.JSONEq(t, string(want), shown.Stdout, shown.Stderr)
	for _, c := range []struct {
		args string
		cpus string // the CPUs of each rank
	}{
		{"-n 16", "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15"},
		{"-n 4 --map-by :PE=4", "0-3,4-7,8-11,12-15"},
		{"-n 4", "0-3,4-7,8-11,12-15"},
		{"-n 2", "0-7,8-15"},
		{"-n 3", "0-7,8-11,12-15"},
		{"-n 5", "0-1,2-3,4-7,8-11,12-15"},
		{"-n 7", "0-1,2-3,4-5,6-7,8-9,10-11,12-15"},
		{"-n 17", strings.Repeat("0-15,", 16) + "0-15"},
	} {
		o := launch.Ibrun(t, append(strings.Fields(c.args), "--dry-run", "--display", "bind", "--topo-input", dir, "true")...)
		require.Equal(t, 0, o.Code, o.Stderr)
		var cpus []string
		for _, f := range reported.FindAllStringSubmatch(o.Stdout, -1) {
			cpus = append(cpus, f[2])
		}
		require.Equal(t, c.cpus, strings.Join(cpus, ","), c.args)
		require.Equal(t, len(cpus), strings.Count(o.Stdout, ", HCA mthca0:1"), o.Stdout)
	}
}
