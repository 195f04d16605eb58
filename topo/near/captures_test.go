package near_test

import (
	"os"
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
