package near_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/cpuset"
	"ibrun/topo"
	"ibrun/topo/hwloctest"
	"ibrun/topo/near"
)

// Both machines with an HCA have one active port. It is on the second NUMA
// node, and all ranks get it for want of another; the others have nothing.
func TestCaptures(t *testing.T) {
	captures := hwloctest.Captures(t)
	t.Run("links", func(t *testing.T) { links(t, captures) })
	for name, dir := range captures {
		t.Run(name, func(t *testing.T) {
			m := topo.Read(os.DirFS(dir))
			port := map[string]string{"32em64t-2n8c+dax+nvme+mic+dimms": "mlx4_0:1", "fakepcilocalities": "qib0:1"}[name]
			var places []cpuset.Set
			for cpu := range m.Online.All() {
				places = append(places, cpuset.Of(cpu))
			}
			choices, err := near.Ports(m, "", append(places, cpuset.Set{}))
			require.NoError(t, err)
			require.Len(t, choices, m.Online.Len()+1)
			for _, c := range choices {
				require.Equal(t, port, c.String())
				require.Equal(t, port != "", strings.Contains(strings.Join(c.Env(""), " "), "UCX_NET_DEVICES="+port))
			}
			if port == "" {
				return
			}
			require.Equal(t, 1, choices[0].HCA.NUMA)
			name, _, _ := strings.Cut(port, ":")
			_, err = near.Ports(m, name+":2", nil)
			require.EqualError(t, err, "--hca "+name+":2: there is no such port: this node has "+name+" (port 1 ACTIVE); see them with: ibrun --display topo")
		})
	}
}

// Ethernet is on the first node of both machines.
func links(t *testing.T, captures map[string]string) {
	two := topo.Read(os.DirFS(captures["32em64t-2n8c+dax+nvme+mic+dimms"]))
	require.Equal(t, "eth0", near.Link(two, cpuset.Of(0), []string{"ib0", "eth0"}))
	require.Equal(t, "ib0", near.Link(two, cpuset.Of(8), []string{"eth0", "ib0"}))
	four := topo.Read(os.DirFS(captures["fakepcilocalities"]))
	require.Equal(t, "eth0", near.Link(four, cpuset.Of(0), []string{"ib0", "eth0"}))
	require.Equal(t, "ib0", near.Link(four, cpuset.Of(1), []string{"eth0", "ib0"}))
	require.Equal(t, "eth0", near.Link(four, cpuset.Of(2), []string{"eth0", "ib0"}), "both are two hops away")
}

// The capture has three folders of an HCA called qib0, below the buses of three
// packages, and one of them in its class. With the others linked there too, as
// a kernel would have them, there are three active ports on NUMA nodes 1 to 3,
// and none on node 0.
func TestThreeActivePorts(t *testing.T) {
	dir := hwloctest.Captures(t)["fakepcilocalities"]
	for name, bus := range map[string]string{"qib1": "pci0000:80/0000:80:03.0", "qib2": "pci0000:c0/0000:c0:03.0"} {
		require.NoError(t, os.Symlink("../../devices/"+bus+"/0000:43:00.0/infiniband/qib0", filepath.Join(dir, "sys/class/infiniband", name)))
	}
	home := []int{1, 2, 3, 1, 2, 3, 1, 2, 3} // ranks by NUMA node
	choose := func(nodes []int) (ports []string) {
		m := topo.Read(os.DirFS(dir))
		var places []cpuset.Set
		for _, n := range nodes {
			places = append(places, m.Memories[n].CPUs)
		}
		choices, err := near.Ports(m, "", places)
		require.NoError(t, err)
		for _, c := range choices {
			ports = append(ports, c.String())
			env := strings.Join(c.Env(""), " ")
			require.Contains(t, env, "UCX_NET_DEVICES="+c.String())
			require.Contains(t, env, "NCCL_IB_HCA=="+c.String())
			require.Contains(t, env, "MV2_IBA_HCA="+c.HCA.Name)
		}
		return ports
	}
	var nearest []string
	for _, n := range home {
		nearest = append(nearest, []string{"", "qib0:1", "qib1:1", "qib2:1"}[n])
	}
	require.Equal(t, nearest, choose(home), "each has the one of its node")
	require.Equal(t, []string{"qib0:1", "qib1:1", "qib2:1", "qib0:1", "qib1:1", "qib2:1"}, choose([]int{0, 0, 0, 0, 0, 0}), "ties take turns")
	state := filepath.Join(dir, "sys/devices/pci0000:80/0000:80:03.0/0000:43:00.0/infiniband/qib0/ports/1/state")
	require.NoError(t, os.WriteFile(state, []byte("1: DOWN\n"), 0o600))
	require.Equal(t, []string{"qib0:1", "qib2:1", "qib0:1", "qib2:1"}, choose([]int{0, 0, 2, 2}), "one that is down is not there")
}
