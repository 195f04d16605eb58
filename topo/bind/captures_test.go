package bind_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/cpuset"
	"ibrun/test/skip"
	"ibrun/topo"
	"ibrun/topo/bind"
	"ibrun/topo/hwloctest"
	"ibrun/topo/topotest"
)

// ports are the machines with an HCA: it has one active port.
var ports = map[string]string{
	"made-sandy": "mlx4_0:1", "made-columns": "qib0:1",
	"32em64t-2n8c+dax+nvme+mic+dimms": "mlx4_0:1", "fakepcilocalities": "qib0:1",
}

// The port is on the second NUMA node, and all ranks get it for want of another; machines
// without an HCA have nothing.
func TestCaptures(t *testing.T) {
	found := 0
	for name, m := range hwloctest.Machines(t) {
		t.Run(name, func(t *testing.T) {
			port := ports[name]
			var places []cpuset.Set
			for cpu := range m.Online.All() {
				places = append(places, cpuset.Of(cpu))
			}
			choices, err := bind.Ports(m, "", append(places, cpuset.Set{}))
			require.NoError(t, err)
			require.Len(t, choices, m.Online.Len()+1)
			for _, c := range choices {
				require.Equal(t, port, c.String())
				require.Equal(t, port != "", strings.Contains(strings.Join(c.Env(""), " "), "UCX_NET_DEVICES="+port))
			}
			if port == "" {
				return
			}
			found++
			require.Equal(t, 1, choices[0].HCA.NUMA)
			hca, _, _ := strings.Cut(port, ":")
			_, err = bind.Ports(m, hca+":2", nil)
			why := ":2: there is no such port: this node has " + hca + " (port 1 ACTIVE)"
			if name == "made-sandy" {
				why = ":2: the port is not active: this node has " + hca + " (port 1 ACTIVE, port 2 DOWN)"
			}
			require.EqualError(t, err, "--hca "+hca+why+"; see them with: ibrun --display topo")
			links(t, m, strings.HasSuffix(name, "columns") || name == "fakepcilocalities")
		})
	}
	require.GreaterOrEqual(t, found, 2)
}

// links: Ethernet is on the first node of both machines, InfiniBand on the second. CPUs of one
// are dealt to its four nodes like cards.
func links(t *testing.T, m *topo.Machine, dealt bool) {
	second := 8
	if dealt {
		second = 1
	}
	require.Equal(t, "eth0", bind.Link(m, cpuset.Of(0), []string{"ib0", "eth0"}))
	require.Equal(t, "ib0", bind.Link(m, cpuset.Of(second), []string{"eth0", "ib0"}))
	if dealt {
		require.Equal(t, "eth0", bind.Link(m, cpuset.Of(2), []string{"eth0", "ib0"}), "both are two hops away")
	}
}

// threeHCAs has an HCA on each NUMA node but the first.
const threeHCAs = "pack:4 core:3 order:cyclic hca:qib0,numa=1,lid=1 hca:qib1,numa=2,lid=2 hca:qib2,numa=3,lid=3"

func TestThreeActivePorts(t *testing.T) {
	up, err := topotest.Parse(threeHCAs)
	require.NoError(t, err)
	down, err := topotest.Parse(strings.Replace(threeHCAs, "lid=2", "down", 1))
	require.NoError(t, err)
	three(t, func(second bool) *topo.Machine {
		if second {
			return topo.Read(up.Files())
		}
		return topo.Read(down.Files())
	})
}

// The capture has three folders of an HCA called qib0, below the buses of three
// packages, and one of them in its class. With the others linked there too, as
// a kernel would have them, there are three active ports on NUMA nodes 1 to 3,
// and none on node 0.
func TestThreeActivePortsOfACapture(t *testing.T) {
	dir, ok := hwloctest.Captures(t)["fakepcilocalities"]
	if !ok {
		skip.Because(t, "captures of real machines: "+hwloctest.Variable+" names no folder with fakepcilocalities")
	}
	for name, bus := range map[string]string{"qib1": "pci0000:80/0000:80:03.0", "qib2": "pci0000:c0/0000:c0:03.0"} {
		require.NoError(t, os.Symlink("../../devices/"+bus+"/0000:43:00.0/infiniband/qib0", filepath.Join(dir,
			"sys/class/infiniband", name)))
	}
	state := filepath.Join(dir, "sys/devices/pci0000:80/0000:80:03.0/0000:43:00.0/infiniband/qib0/ports/1/state")
	three(t, func(second bool) *topo.Machine {
		if !second {
			require.NoError(t, os.WriteFile(state, []byte("1: DOWN\n"), 0o600))
		}
		return topo.Read(os.DirFS(dir))
	})
}

// three looks at the choices on a machine of four NUMA nodes with a port on each but the first, the
// second port up or down.
func three(t *testing.T, machine func(second bool) *topo.Machine) {
	home := []int{1, 2, 3, 1, 2, 3, 1, 2, 3} // ranks by NUMA node
	m := machine(true)
	choose := func(nodes []int) (ports []string) {
		var places []cpuset.Set
		for _, n := range nodes {
			places = append(places, m.Memories[n].CPUs)
		}
		choices, err := bind.Ports(m, "", places)
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
	taken := []string{"qib0:1", "qib1:1", "qib2:1", "qib0:1", "qib1:1", "qib2:1"}
	require.Equal(t, taken, choose([]int{0, 0, 0, 0, 0, 0}), "ties take turns")
	m = machine(false)
	taken = []string{"qib0:1", "qib2:1", "qib0:1", "qib2:1"}
	require.Equal(t, taken, choose([]int{0, 0, 2, 2}), "one that is down is not there")
}
