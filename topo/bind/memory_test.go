package bind

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/job"
)

// TestMemory: "near 1" prefers NUMA node 1, "turns 0-1" takes pages in turn.
func TestMemory(t *testing.T) {
	const far = "\nfar 0: 10 16 21 22\nfar 1: 16 10 22 21\nfar 2: 21 22 10 16\nfar 3: 22 21 16 10"
	opteron := shapes["opteron"]
	for _, c := range []struct {
		name, machine, request string
		memory                 []string
	}{
		{"each its own", opteron, "n=4", []string{"near 0", "near 1", "near 2", "near 3"}},
		{"cores", opteron, "n=16 bind=core", []string{"near 0", "near 0", "near 0", "near 0", "near 1", "near 1",
			"near 1", "near 1",
			"near 2", "near 2", "near 2", "near 2", "near 3", "near 3", "near 3", "near 3"}},
		{"several", opteron, "n=2", []string{"turns 0-1", "turns 2-3"}},
		{"all", opteron, "n=1", []string{"turns 0-3"}},
		{"a list", opteron, "n=2 cpus=0,4/15", []string{"turns 0-1", "near 3"}},
		{"not bound", opteron, "n=2 bind=none", []string{"", ""}},
		{"too many", opteron, "n=17", make([]string, 17)},
		{"not allowed", opteron + "\nmems 2-3", "n=4", []string{"near 2", "near 2", "near 2", "near 3"}},
		{"not allowed, by distance", opteron + far + "\nmems 1,3", "n=4", []string{"near 1", "near 1", "near 3",
			"near 3"}},
		{"one of two allowed", opteron + "\nmems 1-2", "n=2", []string{"near 1", "near 2"}},
		{"without memory", opteron + far + "\nempty 2", "n=4", []string{"near 0", "near 1", "near 3", "near 3"}},
		{"of two without memory", opteron + far + "\nempty 2\nempty 3\nmems 0,2-3", "n=2", []string{"near 0",
			"near 0"}},
		{"sizes unknown", "described pack:2\nempty 0\nempty 1", "n=2", []string{"near 0", "near 1"}},
		{"memory alone is not near", "described pack:2\nmemory 7", "n=1", []string{"turns 0-1"}},
		{"memory alone is the nearest", "described pack:2\nmemory 7\nempty 0\nfar 0: 10 21 17\nfar 1: 21 10 28",
			"n=2", []string{"near 7", "near 1"}},
		{"cgroup of the capture", shapes["cgroup"], "n=1", []string{"near 2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			want, ranks, omp := request(c.request)
			places, _, err := Places(machine(c.machine), want, ranks, omp)
			require.NoError(t, err)
			var got []string
			for _, p := range places {
				switch {
				case p.Mems.Empty():
					require.False(t, p.Interleave)
					got = append(got, "")
				case p.Interleave:
					got = append(got, "turns "+p.Mems.String())
				default:
					got = append(got, "near "+p.Mems.String())
				}
			}
			require.Equal(t, c.memory, got)
		})
	}
}

// TestNotes: what is said of narrow allowances, besides the places.
func TestNotes(t *testing.T) {
	places, notes, err := Places(machine(shapes["quota"]), job.Binding{}, 2, 0)
	require.NoError(t, err)
	require.Equal(t, []string{"0-3", "4-7"}, sets(places), "a quota changes no set")
	require.Equal(t, []string{"cpu.max of the cgroup leaves the time of 1.5 CPUs to 8 CPUs: " +
		"ranks that use more are stopped again and again; raise the quota or use fewer threads"}, notes)

	m := machine(shapes["quota"])
	for quota, n := range map[float64]int{0: 0, 3.9: 1, 4: 0, 8: 0} {
		m.Quota = quota
		_, notes, err = Places(m, job.Binding{}, 2, 0)
		require.NoError(t, err)
		require.Len(t, notes, n, "%v CPUs of 8", quota)
	}

	// A mask of one CPU is told of even if nobody wants to be bound, and once.
	for _, bind := range []job.Object{job.NotGiven, job.Unbound, job.NUMA} {
		_, notes, err = Places(machine(shapes["one"]), job.Binding{Bind: bind}, 4, 0)
		require.NoError(t, err)
		require.Equal(t,
			[]string{"this node allows only CPU 2 to its 4 ranks, as a job step of one task or taskset does: " +
				"ask for more (Slurm: -c N or --exclusive, and --cpu-bind=none where srun starts ibrun)"}, notes)
	}
	_, notes, err = Places(machine("0 0 -: 0"), job.Binding{}, 4, 0)
	require.NoError(t, err)
	require.Equal(t, []string{"oversubscribed: 4 ranks on 1 allowed CPU, so that none is bound"}, notes,
		"a machine of one CPU is not masked")
}

// TestNobody: a node may have no rank.
func TestNobody(t *testing.T) {
	places, notes, err := Places(machine(shapes["opteron"]), job.Binding{PE: 99}, 0, 4)
	require.NoError(t, err)
	require.Empty(t, places)
	require.Empty(t, notes)
}

// TestOrder: the lists of a machine may be in any order; the cores decide.
func TestOrder(t *testing.T) {
	m := machine(shapes["opteron"])
	m.Packages[0], m.Packages[3] = m.Packages[3], m.Packages[0]
	m.L3s[1], m.L3s[2] = m.L3s[2], m.L3s[1]
	places, _, err := Places(m, job.Binding{Map: job.Package, Bind: job.L3}, 3, 0)
	require.NoError(t, err)
	require.Equal(t, []string{"0-3", "4-7", "8-11"}, sets(places))
}

// TestSharesNothing: whoever adds to one rank's set changes no other one.
func TestSharesNothing(t *testing.T) {
	for _, words := range []string{"n=4 bind=package", "n=4 cpus=0-3", "n=5 map=core bind=core overload",
		"n=4 map=numa bind=l3cache"} {
		want, ranks, omp := request(words)
		places, _, err := Places(machine(shapes["opteron"]+"\nallow 0-3"), want, ranks, omp)
		require.NoError(t, err)
		before := sets(places[1:])
		for n := range 64 {
			places[0].CPUs.Add(n)
			places[0].Mems.Add(n)
		}
		require.Equal(t, before, sets(places[1:]), words)
		require.Equal(t, "0", places[1].Mems.String())
	}
}
