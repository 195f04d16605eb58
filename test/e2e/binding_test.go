package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/topo"
	"ibrun/topo/draw"
	"ibrun/topo/hwloctest"
	"ibrun/topo/topotest"
)

// where lets a rank say what its own kernel tells of it.
const where = `grep -E '^(Cpus|Mems)_allowed_list' /proc/self/status | tr '\t\n' '  ' | sed "s/^/$IBRUN_RANK /"; ` +
	`echo; read wait || true`

// line of --report-bindings.
var reported = regexp.MustCompile(`(?m)^ibrun: rank (\d+) on \S+: CPUs (\S+), NUMA nodes (\S+)`)

// What is reported is what the running rank's kernel says, for each word.
func TestReportedBindings(t *testing.T) {
	m := topo.Read(os.DirFS("/"))
	for _, word := range []string{"auto", "none", "hwthread", "core", "l3cache", "numa", "package"} {
		for n := 1; n <= 3; n++ {
			o := ibrun(t, "-n", fmt.Sprint(n), "--stdin", "all", "--bind-to", word, "--report-bindings", "sh", "-c",
				where)
			require.Equal(t, 0, o.code, o.stderr)
			found := reported.FindAllStringSubmatch(o.stderr, -1)
			require.Len(t, found, n, o.stderr)
			for i, f := range found {
				require.Equal(t, fmt.Sprint(i), f[1])
				require.Contains(t, string(o.stdout), fmt.Sprintf("%s Cpus_allowed_list: %s Mems_allowed_list: %s",
					f[1], f[2], f[3]))
				if word == "none" || n == 1 && word == "auto" {
					require.Equal(t, m.Allowed.String(), f[2], word)
				}
			}
			if word == "auto" && n > 1 && n <= m.Allowed.Len() {
				require.NotEqual(t, found[0][2], found[1][2])
			}
		}
	}
}

// An agent that has bound ranks is where it was, and so are those that it
// starts afterwards.
func TestBindingStaysWithTheRank(t *testing.T) {
	m := topo.Read(os.DirFS("/"))
	o := ibrun(t, "--launcher", "local", "--hosts", "a:1,b:1,c:1", "--tree", "chain", "--cpu-bind", "map_cpu:"+
		fmt.Sprint(m.Allowed.First()),
		"sh", "-c", "grep Cpus_allowed_list /proc/self/status /proc/$PPID/status | tr -d '\t'")
	require.Equal(t, 0, o.code, o.stderr)
	require.Equal(t, 3, strings.Count(string(o.stdout), "/proc/self/status:Cpus_allowed_list:"+
		fmt.Sprint(m.Allowed.First())+"\n"), string(o.stdout))
	require.Equal(t, 3, strings.Count(string(o.stdout), "Cpus_allowed_list:"+m.Allowed.String()+"\n"), string(o.stdout))
}

func TestBindingInJSON(t *testing.T) {
	for range 20 { // programs that end at once are reported, too
		o := ibrun(t, "-n", "4", "--report-bindings", "true")
		require.Equal(t, 0, o.code, o.stderr)
		require.Equal(t, 4, strings.Count(o.stderr, ": CPUs "), o.stderr)
	}
	o := ibrun(t, "-n", "2", "--report-bindings", "--json", "sleep", "0.2")
	require.Equal(t, 0, o.code, o.stderr)
	lines := strings.Split(strings.TrimSpace(o.stderr), "\n")
	require.Len(t, lines, 2)
	for i, l := range lines {
		var p struct {
			Rank int
			CPUs string
		}
		require.NoError(t, json.Unmarshal([]byte(l), &p), l)
		require.Equal(t, i, p.Rank)
		require.NotEmpty(t, p.CPUs)
	}
}

// An ibrun that was started with a narrow mask says so, and once.
func TestInheritedMask(t *testing.T) {
	m := topo.Read(os.DirFS("/"))
	if m.Online.Len() < 2 {
		t.Fatal("one CPU: no mask is narrow; run the tests where there are two")
	}
	c := command(t, "-n", "2", "true")
	c.Args = append([]string{"taskset", "-c", fmt.Sprint(m.Allowed.First())}, c.Args...)
	c.Args[3] = c.Path
	var err error
	c.Path, err = exec.LookPath("taskset")
	require.NoError(t, err)
	o := finish(t, c)
	require.Equal(t, 0, o.code, o.stderr)
	require.Equal(t, 1, strings.Count(o.stderr, "\n"), o.stderr)
	require.Contains(t, o.stderr, fmt.Sprintf("may use CPUs %d of %s", m.Allowed.First(), m.Online))
}

// What cannot be done is refused before any rank starts, once for all nodes.
func TestImpossibleBindings(t *testing.T) {
	for args, want := range map[string]string{
		"--map-by :PE=4000":                         "4000 cores",
		"--cpu-bind map_cpu:4000":                   "4000",
		"--cpu-bind mask_cpu:0x1000000000000000000": "72",
		"--hca mlx5_99":                             "mlx5_99",
		"--map-by ppr:1:package -ppn 3":             "package",
	} {
		line := append(strings.Fields(args), "--launcher", "local", "--hosts", "a:3,b:3,c:3", "sh", "-c",
			"echo started; sleep 9")
		o := ibrun(t, line...)
		require.Equal(t, 125, o.code, "%s: %s", args, o.stderr)
		require.Contains(t, o.stderr, "could not be started")
		require.Contains(t, o.stderr, want)
		require.Equal(t, 1, strings.Count(o.stderr, "could not be started"), "once: "+o.stderr)
		require.NotContains(t, string(o.stdout), "started")
	}
}

// A dry run shows the whole picture, and starts nothing.
func TestDryRunOfPlaces(t *testing.T) {
	o := ibrun(t, "-n", "32", "--hosts", "a:16,b:16", "--display", "map,bind,topo", "--dry-run", "true")
	require.Equal(t, 0, o.code, o.stderr)
	require.Contains(t, string(o.stdout), "32 ranks on 2 nodes")
	require.Contains(t, string(o.stdout), "which every node is taken to be like")
	for rank := range 32 {
		require.Contains(t, string(o.stdout), fmt.Sprintf("ibrun: rank %d on %c: CPUs", rank, 'a'+rank/16))
	}
}

func TestDisplayAndCapture(t *testing.T) {
	file := t.TempDir() + "/this.tar"
	o := ibrun(t, "--capture", file)
	require.Equal(t, 0, o.code, o.stderr)
	live := ibrun(t, "--display", "topo", "--json")
	again := ibrun(t, "--display", "topo", "--json", "--topo-input", file)
	require.Equal(t, 0, again.code, again.stderr)
	var a, b map[string]any
	require.NoError(t, json.Unmarshal(live.stdout, &a))
	require.NoError(t, json.Unmarshal(again.stdout, &b))
	for _, m := range []map[string]any{a, b} {
		delete(m, "load") // it changes
	}
	require.Equal(t, a, b)
	bad := ibrun(t, "--display", "topo", "--topo-input", "/nowhere")
	require.Equal(t, 2, bad.code)
	require.Contains(t, bad.stderr, "/nowhere")
	live = ibrun(t, "--display", "topo", "--launcher", "local", "--hosts", "a,b", "true")
	require.Equal(t, 0, live.code, live.stderr)
	require.Contains(t, live.stderr, "ibrun: a:\n")
	require.Contains(t, live.stderr, "ibrun: b:\n")
	live = ibrun(t, "--display", "topo", "--json", "--launcher", "local", "--hosts", "a", "true")
	var node struct {
		Host     string
		Topology map[string]any
	}
	require.NoError(t, json.Unmarshal([]byte(live.stderr), &node), live.stderr)
	require.Equal(t, "a", node.Host)
	require.Equal(t, a["packages"], node.Topology["packages"])
}

// What --topo-input shows of a capture is what package topo reads, which its
// own tests hold against hwloc.
func TestTopoInput(t *testing.T) {
	for name, dir := range hwloctest.Captures(t) {
		o := ibrun(t, "--display", "topo", "--json", "--topo-input", dir)
		require.Equal(t, 0, o.code, "%s: %s", name, o.stderr)
		m := topo.Read(os.DirFS(dir))
		hwloctest.Compare(t, m, dir)
		want, err := draw.JSON(m)
		require.NoError(t, err)
		require.JSONEq(t, string(want), string(o.stdout), name)
	}
}

// Four quad-core nodes: the Ranger shape, as a dry run over a generated tree.
func TestRangerDryRun(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, topotest.Ranger.Files()))
	for _, c := range []struct {
		args string
		cpus string // of each rank
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
		o := ibrun(t, append(strings.Fields(c.args), "--dry-run", "--display", "bind", "--topo-input", dir, "true")...)
		require.Equal(t, 0, o.code, o.stderr)
		var cpus []string
		for _, f := range reported.FindAllStringSubmatch(string(o.stdout), -1) {
			cpus = append(cpus, f[2])
		}
		require.Equal(t, c.cpus, strings.Join(cpus, ","), c.args)
		require.Equal(t, len(cpus), strings.Count(string(o.stdout), ", HCA mthca0:1"), string(o.stdout))
	}
}

// A dry run with --json has data on standard output, line by line, and nothing else; every node is
// in it.
func TestDryRunInJSON(t *testing.T) {
	const nodes = 60
	var hosts []string
	for i := range nodes { // each a run of its own
		hosts = append(hosts, fmt.Sprintf("%c%d:%d", 'a'+i%3, i, 1+i%2))
	}
	for _, what := range []string{"bind", "bind,topo"} {
		o := ibrun(t, "--hosts", strings.Join(hosts, ","), "--dry-run", "--display", what, "--json", "true")
		require.Equal(t, 0, o.code, o.stderr)
		ranks, others := 0, 0
		for line := range strings.Lines(string(o.stdout)) {
			var data map[string]any
			require.NoError(t, json.Unmarshal([]byte(line), &data), line)
			if _, ok := data["rank"]; ok {
				ranks++
			} else {
				others++
			}
		}
		require.Equal(t, nodes*3/2, ranks)
		require.Equal(t, strings.Count(what, "topo"), others)
		require.Contains(t, o.stderr, "predict  all agents up after")
	}
}
