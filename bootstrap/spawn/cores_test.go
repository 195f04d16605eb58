package spawn

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/cpuset"
	"ibrun/topo"
)

// A rank has cores of its own if no other rank may use a CPU of any of them.
func TestAlone(t *testing.T) {
	m := &topo.Machine{Online: cpuset.Of(0, 1, 2, 3, 4, 5), Cores: []topo.Object{ // CPUs of a core are n and n+3
		{CPUs: cpuset.Of(0, 3)}, {CPUs: cpuset.Of(1, 4)}, {CPUs: cpuset.Of(2, 5)}}}
	for _, c := range []struct {
		ranks []cpuset.Set
		own   []bool
	}{
		{[]cpuset.Set{cpuset.Of(0, 3), cpuset.Of(1), cpuset.Of(2)}, []bool{true, true, true}},
		{[]cpuset.Set{cpuset.Of(0), cpuset.Of(3), cpuset.Of(1, 2)}, []bool{false, false, true}},
		{[]cpuset.Set{cpuset.Of(0, 1), cpuset.Of(1, 2), cpuset.Of(5)}, []bool{false, false, false}},
		{[]cpuset.Set{cpuset.Of(0), {}}, []bool{false, false}},
		{[]cpuset.Set{cpuset.Of(0, 1, 2)}, []bool{true}},
		{nil, []bool{}},
	} {
		require.Equal(t, c.own, alone(m, c.ranks), "%v", c.ranks)
	}
	m.Quota = 2
	require.Equal(t, []bool{false}, alone(m, []cpuset.Set{cpuset.Of(0)}))
}
