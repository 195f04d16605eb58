package show

import (
	"math"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/cpuset"
	"ibrun/topo"
)

// full is a small machine with something in every field.
func full() *topo.Machine {
	m := holes()
	m.Memories[0].Distance = []int{10, 20, 30}
	m.Dies = []topo.Object{{ID: 1, CPUs: cpuset.Of(0, 8)}}
	m.L3s, m.Slower = []topo.Object{{ID: 2, CPUs: cpuset.Of(0, 8, 9)}}, cpuset.Of(5)
	at := topo.Place{NUMA: 1, CPUs: cpuset.Of(4, 5), PCI: []string{"pci0000:40", "0000:41:00.0"}}
	m.HCAs = []topo.HCA{{Name: "mlx5_0", Place: at, Ports: []topo.Port{{
		Number: 1, State: "ACTIVE", Physical: "LinkUp", Layer: "InfiniBand", LID: 932, SMLID: 1, LMC: 2, Rate: 56,
		GIDs: []topo.GID{{Index: 3, GID: [16]byte{0: 0xfe, 1: 0x80, 8: 0x00, 9: 0x02, 15: 0xa1}, Type: "RoCE v2",
			Link: "ib0"}},
		PKeys: []uint16{0xffff},
	}}}}
	m.Links = []topo.Link{{Name: "ib0", Place: at, Up: true, MTU: 4092, Speed: 56000, Type: 32}}
	m.Notes, m.Load = []string{"a note"}, 0.5
	return m
}

func TestJSON(t *testing.T) {
	b, err := JSON(full())
	require.NoError(t, err)
	require.JSONEq(t, `{
		"packages": [{"id": 0, "cpus": "0,8-9"}, {"id": 3, "cpus": "4-5,12"}],
		"dies": [{"id": 1, "cpus": "0,8"}],
		"numa_nodes": [
			{"id": 0, "cpus": "0,8-9", "memory_bytes": 4294967296, "distances": [10, 20, 30]},
			{"id": 1, "cpus": "4-5,12", "memory_bytes": 536870912, "distances": []},
			{"id": 7, "cpus": "", "memory_bytes": 1099511627776, "distances": []}
		],
		"caches": [{"id": 2, "cpus": "0,8-9"}],
		"cores": [{"id": 0, "cpus": "0,8"}, {"id": 1, "cpus": "9"}, {"id": 0, "cpus": "4,12"}, {"id": 1, "cpus": "5"}],
		"slower_cpus": "5", "online_cpus": "0,4-5,8-9,12", "allowed_cpus": "0,4-5,9", "allowed_numa_nodes": "0,7",
		"quota_cpus": 1.5, "memory_limit_bytes": 1073741824, "load": 0.5,
		"hcas": [{
			"name": "mlx5_0", "numa_node": 1, "local_cpus": "4-5", "pci_path": ["pci0000:40", "0000:41:00.0"], "iwarp": false, "node_guid": "0000:0000:0000:0000",
			"ports": [{
				"number": 1, "state": "ACTIVE", "physical_state": "LinkUp", "link_layer": "InfiniBand",
				"lid": 932, "sm_lid": 1, "lmc": 2, "rate_gbps": 56,
				"gids": [{"index": 3, "gid": "fe80:0000:0000:0000:0002:0000:0000:00a1", "type": "RoCE v2", "interface": "ib0"}],
				"pkeys": [65535]
			}]
		}],
		"interfaces": [{
			"name": "ib0", "numa_node": 1, "local_cpus": "4-5", "pci_path": ["pci0000:40", "0000:41:00.0"],
			"up": true, "loopback": false, "virtual": false, "mtu_bytes": 4092, "speed_mbps": 56000, "arphrd": 32
		}],
		"notes": ["a note"]
	}`, string(b))
	b, err = JSON(flat())
	require.NoError(t, err)
	require.NotContains(t, string(b), "null")

	m := full()
	m.Load = math.Inf(1)
	_, err = JSON(m)
	require.ErrorContains(t, err, "machine as JSON: json: unsupported value")
}

// Whatever is changed in a machine is seen in the data, so a field that is
// added to topo.Machine is not forgotten here.
func TestJSONIsComplete(t *testing.T) {
	m := full()
	before, err := JSON(m)
	require.NoError(t, err)
	changed := 0
	var change func(name string, v reflect.Value)
	change = func(name string, v reflect.Value) {
		old := reflect.ValueOf(v.Interface())
		switch {
		case v.Type() == reflect.TypeFor[cpuset.Set]():
			v.Set(reflect.ValueOf(cpuset.Of(77)))
		case v.Kind() == reflect.Struct:
			for i := range v.NumField() {
				change(name+"."+v.Type().Field(i).Name, v.Field(i))
			}
			return
		case v.Kind() == reflect.Slice || v.Kind() == reflect.Array:
			require.NotZero(t, v.Len(), name)
			change(name+"[0]", v.Index(0))
			return
		case v.Kind() == reflect.String:
			v.SetString("changed")
		case v.Kind() == reflect.Bool:
			v.SetBool(!v.Bool())
		case v.CanInt():
			v.SetInt(77)
		case v.CanUint():
			v.SetUint(77)
		case v.CanFloat():
			v.SetFloat(77)
		default:
			require.Fail(t, "a kind that this test does not know", name)
		}
		after, err := JSON(m)
		require.NoError(t, err)
		require.NotEqual(t, string(before), string(after), name)
		v.Set(old)
		changed++
	}
	change("Machine", reflect.ValueOf(m).Elem())
	require.Greater(t, changed, 40)
}
