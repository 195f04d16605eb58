//go:build cluster

package ssh

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/cpuset"
	"ibrun/test/vcluster/cluster"
	"ibrun/topo"
	"ibrun/topo/topotest"
)

// examined contains those fields of the output of ibrun --doctor --json that the tests in this file check.
type examined struct {
	Nodes []struct {
		Name, How string
		Lost      *struct{ Cause string }
		Clock     struct {
			Least float64 `json:"least_ahead_s"`
			Most  float64 `json:"most_ahead_s"`
		}
		Report *struct {
			Host    string `json:"host_name"`
			CPUs    struct{ Allowed string }
			Memlock struct{ Soft int64 }     `json:"memlock_bytes"`
			Data    struct{ Address string } `json:"data_path"`
			HCAs    []struct{ Ports []struct{ LID uint32 } }
		}
	}
	Findings []struct {
		Severity, Subject, Text string
		Nodes                   []string
	}
}

// examine runs ibrun --doctor --json with more arguments on c, requires the given exit code, and returns the output.
func examine(t *testing.T, c *cluster.Cluster, code int, args ...string) (e examined) {
	o := ibrun(t, c, append([]string{"--doctor", "--json"}, args...)...)
	require.Equal(t, code, o.code, o.stderr+o.stdout)
	require.NoError(t, json.Unmarshal([]byte(o.stdout), &e), o.stdout)
	return e
}

// found returns the findings as a map. A key consists of the subject and the nodes of a finding, such as "mlx5_0:1
// node0003". The value consists of its severity and text, such as "error: DOWN (Polling)".
func (e examined) found() map[string]string {
	found := map[string]string{}
	for _, f := range e.Findings {
		found[f.Subject+" "+strings.Join(f.Nodes, ",")] = f.Severity + ": " + f.Text
	}
	return found
}

// begin replaces .bashrc in the home directory of a node, so that each shell of an ssh session runs the given line
// first.
func begin(t *testing.T, c *cluster.Cluster, node, line string) {
	cmd := c.Exec(t.Context(), node, "sh", "-c", "cat >$HOME/.bashrc")
	cmd.Stdin = strings.NewReader(line + "\n")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// lowered is a line for begin. It lowers the limit of locked memory to 64 KiB. It then runs the command of the session
// without the capability CAP_SYS_RESOURCE, by which root could raise the limit again.
const lowered = `ulimit -l 64; [ "$BASH_EXECUTION_STRING" ] && exec setpriv --bounding-set=-sys_resource sh -c ` +
	`"$BASH_EXECUTION_STRING"`

// TestDoctorOnTroubledNodes examines three nodes over ssh: one without faults, one with a low limit of locked memory
// and a cpuset of one CPU, and one whose network is cut off. The report must show the limit, and must have findings
// about the cpuset and about the unreachable node. It must have none about the missing RDMA devices.
func TestDoctorOnTroubledNodes(t *testing.T) {
	parallel(t, working)
	c := own(t, cluster.Config{Nodes: 3})
	all := topo.Read(os.DirFS("/")).Allowed
	require.NoError(t, c.Restrict("node0002", cpuset.Of(all.First()).String(), "0"))
	begin(t, c, "node0002", lowered)
	require.NoError(t, c.Cut("node0003"))
	e := examine(t, c, 1, "--hosts", "node[0001-0003]")
	require.Len(t, e.Nodes, 3)
	for _, n := range e.Nodes[:2] {
		require.NotNil(t, n.Report, "%+v", n.Lost)
		require.Equal(t, n.Name, n.Report.Host)
		require.Equal(t, "ssh", n.How)
		require.Equal(t, c.Address(n.Name), n.Report.Data.Address)
		require.LessOrEqual(t, n.Clock.Least, 0.0)
		require.GreaterOrEqual(t, n.Clock.Most, 0.0)
	}
	require.Equal(t, all.String(), e.Nodes[0].Report.CPUs.Allowed)
	require.Equal(t, fmt.Sprint(all.First()), e.Nodes[1].Report.CPUs.Allowed)
	require.Greater(t, uint64(e.Nodes[0].Report.Memlock.Soft), uint64(64<<10))
	require.Equal(t, int64(64<<10), e.Nodes[1].Report.Memlock.Soft)
	require.NotNil(t, e.Nodes[2].Lost)
	require.Nil(t, e.Nodes[2].Report)
	found := e.found()
	require.Contains(t, found["launch node0003"], "error: was not examined: front could not reach it (")
	if all.Len() > 1 {
		require.Contains(t, found["cpuset node0002"], "note: ranks may use CPUs")
	}
	require.NotContains(t, found, "rdma node0001,node0002", "the lack of RDMA must not be a finding")
}

// TestDoctorOnMadeUpHCAs mounts a fake sysfs with one HCA on each of three nodes. All three have the same GUIDs, the
// first two have the same LID, and the port of the third one is down. The doctor must report the duplicates and the
// port, and that the kernel's RDMA netlink interface is not available.
func TestDoctorOnMadeUpHCAs(t *testing.T) {
	parallel(t, working)
	c := own(t, cluster.Config{Nodes: 3})
	for node, p := range map[string]topotest.Port{
		"node0001": {LID: 0x1b, SMLID: 1, Rate: 100}, "node0002": {LID: 0x1b, SMLID: 1, Rate: 56},
		"node0003": {State: "DOWN"},
	} {
		dir := filepath.Join(c.Shared(), node)
		m := topotest.Machine{CoresPerPackage: topo.Read(os.DirFS("/")).Online.Last() + 1,
			HCAs: []topotest.HCA{{Name: "mlx5_0", Ports: []topotest.Port{p}}}}
		require.NoError(t, os.CopyFS(dir, m.Files()))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "sys/class/infiniband_verbs/abi_version"), []byte("6\n"),
			0o644))
		begin(t, c, node,
			`[ "$BASH_EXECUTION_STRING" ] && export CMD="$BASH_EXECUTION_STRING" && exec unshare -m sh -c 'mount `+
				`--bind `+dir+`/sys /sys; exec sh -c "$CMD"'`)
	}
	e := examine(t, c, 1, "--fabric", "ib", "--hosts", "node[0001-0003]")
	require.Len(t, e.Nodes, 3)
	for i, lid := range []uint32{27, 27, 0} {
		require.NotNil(t, e.Nodes[i].Report, "%+v", e.Nodes[i].Lost)
		require.Len(t, e.Nodes[i].Report.HCAs, 1)
		require.Equal(t, lid, e.Nodes[i].Report.HCAs[0].Ports[0].LID)
	}
	found := e.found()
	require.Equal(t, "error: node0001 mlx5_0:1 and node0002 mlx5_0:1 both have LID 27 in subnet fe80000000000000",
		found["LID node0001,node0002"])
	require.Contains(t, found["port GUID node0001,node0002,node0003"], "error: 0002c90300010001")
	require.Contains(t, found["node GUID node0001,node0002,node0003"], "error: 0002c90300010000")
	require.Contains(t, found["mlx5_0:1 node0003"], "error: DOWN (Polling)")
	require.Contains(t, found["netlink node0001,node0002,node0003"], "protocol not supported")
	o := ibrun(t, c, "--doctor", "--hosts", "node[0001-0003]")
	require.Regexp(t, `node0001 .*mlx5_0:1 ACTIVE InfiniBand 100 Gb/s LID 27\n`, o.stdout)
}
