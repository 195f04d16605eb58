package bind

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/cpuset"
	"ibrun/internal/job"
	"ibrun/topo"
	"ibrun/topo/hwloctest"
)

// machines is for each test; each machine gets several requests.
var machines = 200

// anyMachine draws a machine that Read could have made: objects of all sizes, holes in what is
// online and allowed, memory of unknown size and distance.
func anyMachine(r *rand.Rand) *topo.Machine {
	m := hwloctest.Drawn(r)
	m.L3s = slices.DeleteFunc(m.L3s, func(l3 topo.Object) bool { // those that hold several NUMA nodes do not count
		return !slices.ContainsFunc(m.Memories, func(n topo.Memory) bool { return l3.CPUs.In(n.CPUs) })
	})
	if r.IntN(4) == 0 {
		m.Slower = cpuset.Set{}
		for _, c := range m.Cores {
			if r.IntN(2) == 0 {
				m.Slower = m.Slower.Or(c.CPUs)
			}
		}
	}
	for i := range m.Memories {
		if r.IntN(5) == 0 {
			m.Memories[i].Bytes = 0
		}
		if r.IntN(2) == 0 {
			for range m.Memories {
				m.Memories[i].Distance = append(m.Memories[i].Distance, 10+r.IntN(3))
			}
		}
	}
	return m
}

// anyRequest makes words; some of them cannot be met.
func anyRequest(r *rand.Rand) (want job.Binding, omp int) {
	pick := func(n int) int { return max(0, r.IntN(2*n)-n) } // 0 in every second one
	want = job.Binding{
		Map: job.Object(pick(int(job.Package) + 1)), Bind: job.Object(pick(int(job.Package) + 1)),
		PE: uint32(pick(6)), PerObj: uint32(pick(4)), Fill: r.IntN(2) == 0,
		Rank:     job.Object(pick(int(job.Package) + 1)),
		Overload: r.IntN(4) == 0,
	}
	if want.Map == job.Unbound {
		want.Map = job.NotGiven
	}
	for range pick(6) {
		want.CPUs = append(want.CPUs, []string{"0", "1-3", "7", "", "x", "0-9999999"}[r.IntN(6)])
	}
	return want, pick(6)
}

// seeds runs a check on many machines, and says which one failed.
func seeds(t *testing.T, n int, check func(t *testing.T, r *rand.Rand)) {
	var seed uint64
	defer func() {
		if t.Failed() {
			t.Logf("it was seed %d", seed)
		}
	}()
	for seed = range uint64(n) {
		check(t, rand.New(rand.NewPCG(seed, 4)))
	}
}

// cores are the numbers of the cores that a set has CPUs of.
func cores(m *topo.Machine, cpus cpuset.Set) (touched []int) {
	for i, c := range m.Cores {
		if c.CPUs.Meets(cpus) {
			touched = append(touched, i)
		}
	}
	return touched
}

// groups are the allowed CPUs of each package, NUMA node and cache.
func groups(m *topo.Machine) (all []cpuset.Set) {
	objects := slices.Concat(m.Packages, m.L3s)
	for _, n := range m.Memories {
		objects = append(objects, n.Object)
	}
	for _, o := range objects {
		if cpus := o.CPUs.And(m.Allowed); !cpus.Empty() {
			all = append(all, cpus)
		}
	}
	return all
}

// TestDefault holds the rule for shares against machines of all shapes.
func TestDefault(t *testing.T) {
	seeds(t, machines, func(t *testing.T, r *rand.Rand) {
		m := anyMachine(r)
		allowed := len(cores(m, m.Allowed))
		for range 4 {
			n, omp := 1+r.IntN(m.Allowed.Len()), r.IntN(5)
			if r.IntN(2) == 0 {
				n = 1 + r.IntN(allowed)
			}
			places, notes, err := Places(m, job.Binding{}, n, omp)
			require.NoError(t, err)
			require.Len(t, places, n)
			require.Empty(t, notes)
			var all cpuset.Set
			for _, p := range places {
				require.False(t, p.CPUs.Empty(), "a rank without CPUs")
				require.False(t, p.CPUs.Meets(all), "%s is somebody else's too", p.CPUs)
				all = all.Or(p.CPUs)
				if n*omp <= allowed {
					require.GreaterOrEqual(t, len(cores(m, p.CPUs)), omp, "fewer cores than threads")
				}
			}
			require.True(t, all.Equal(m.Allowed), "%s of %s", all, m.Allowed)
			contiguous(t, m, places)
			if n <= allowed {
				fair(t, m, places)
			}
			if n*omp > allowed || omp < 2 {
				nested(t, m, places)
			}
		}
	})
}

// contiguous checks that the ranks, one after the other, come to each object
// once and do not return to it.
func contiguous(t *testing.T, m *topo.Machine, places []Place) {
	for _, g := range groups(m) {
		var inside []int
		for rank, p := range places {
			if p.CPUs.Meets(g) {
				inside = append(inside, rank)
			}
		}
		for i, rank := range inside {
			require.Equal(t, inside[0]+i, rank, "ranks come back to %s", g)
			// One that crosses a border of the group is the first or the last there.
			crosses := !places[rank].CPUs.In(g)
			require.False(t, crosses && i > 0 && i < len(inside)-1, "a rank in the middle of %s is elsewhere too", g)
		}
	}
}

// fair checks that cores stay whole, and that ranks between the same borders
// have the same number of them, the first ones at most one more.
func fair(t *testing.T, m *topo.Machine, places []Place) {
	borders := append(groups(m), m.Slower.And(m.Allowed))
	size, where := -1, ""
	for _, p := range places {
		for _, c := range m.Cores {
			require.True(t, !c.CPUs.Meets(p.CPUs) || c.CPUs.And(m.Allowed).In(p.CPUs), "core %s is split", c.CPUs)
		}
		here, inside := "", true
		for _, g := range borders {
			if p.CPUs.Meets(g) {
				here += g.String() + ";"
				inside = inside && p.CPUs.In(g)
			}
		}
		n := len(cores(m, p.CPUs))
		if inside && here == where {
			require.True(t, n == size || n == size-1, "%d cores beside %d in %s", n, size, here)
		}
		size, where = n, here
		if !inside {
			where = ""
		}
	}
}

// nested checks that each share is inside an object, holds all of it, or has
// nothing of it.
func nested(t *testing.T, m *topo.Machine, places []Place) {
	for _, p := range places {
		for _, g := range groups(m) {
			require.True(t, p.CPUs.In(g) || g.In(p.CPUs) || !g.Meets(p.CPUs), "%s crosses %s", p.CPUs, g)
		}
	}
}

// TestWords asks for all sorts of things, on all sorts of machines.
func TestWords(t *testing.T) {
	met := 0
	seeds(t, machines, func(t *testing.T, r *rand.Rand) {
		m := anyMachine(r)
		for range 8 {
			want, omp := anyRequest(r)
			want.CPUs = nil
			n := 1 + r.IntN(2*m.Allowed.Len())
			places, notes, err := Places(m, want, n, omp)
			again, notesAgain, errAgain := Places(m, want, n, omp)
			require.Equal(t, [3]any{places, notes, err}, [3]any{again, notesAgain, errAgain})
			if err != nil {
				l3 := want.Map == job.L3 || want.Bind == job.L3 || want.Rank == job.L3
				require.True(t, want.PE > 0 || want.PerObj > 0 || l3, "%v", err)
				require.Empty(t, places)
				continue
			}
			require.Len(t, places, n)
			if places[0].CPUs.Empty() {
				require.True(t, len(notes) == 1 || want.Bind == job.Unbound)
				for _, p := range places {
					require.Equal(t, Place{}, p)
				}
				continue
			}
			met++
			for _, p := range places {
				obeys(t, m, want, p)
			}
			if !want.Overload && want.Map != job.HWThread && want.Bind <= job.Core {
				apart(t, places)
			}
			ranked := want
			want.Rank = job.NotGiven
			mapped, _, err := Places(m, want, n, omp)
			require.NoError(t, err)
			require.ElementsMatch(t, mapped, places, "--rank-by %s gives the same places to other ranks", ranked.Rank)
			if want.PerObj > 0 && ranked.Rank == job.NotGiven && (want.Map == job.NUMA || want.Map == job.Package) &&
				want.Bind == job.NotGiven {
				each(t, m, want, places)
			}
		}
	})
	require.Greater(t, met, machines)
}

// obeys checks one place against the words.
func obeys(t *testing.T, m *topo.Machine, want job.Binding, p Place) {
	require.False(t, p.CPUs.Empty())
	require.True(t, p.CPUs.In(m.Allowed), "%s leaves %s", p.CPUs, m.Allowed)
	require.True(t, p.Mems.In(m.AllowedMems), "memory of %s, where %s is allowed", p.Mems, m.AllowedMems)
	require.False(t, p.Mems.Empty())
	require.Equal(t, p.Mems.Len() > 1, p.Interleave)
	touched := cores(m, p.CPUs)
	perCPU := want.Map == job.HWThread || want.Bind == job.HWThread
	if pe := int(want.PE); pe > 0 && want.Bind < job.L3 {
		if perCPU {
			require.GreaterOrEqual(t, p.CPUs.Len(), pe)
		} else {
			require.Len(t, touched, pe)
		}
	}
	switch want.Bind {
	case job.Core:
		for _, c := range touched {
			require.True(t, m.Cores[c].CPUs.And(m.Allowed).In(p.CPUs))
		}
	case job.NUMA, job.Package:
		objects := m.Packages
		if want.Bind == job.NUMA {
			objects = nil
			for _, n := range m.Memories {
				objects = append(objects, n.Object)
			}
		}
		for _, o := range objects {
			cpus := o.CPUs.And(m.Allowed)
			require.True(t, !cpus.Meets(p.CPUs) || cpus.In(p.CPUs), "%s has a part of %s", p.CPUs, cpus)
		}
	}
}

// apart checks that no two ranks share a CPU.
func apart(t *testing.T, places []Place) {
	var all cpuset.Set
	for _, p := range places {
		require.False(t, p.CPUs.Meets(all), "%s is somebody else's too", p.CPUs)
		all = all.Or(p.CPUs)
	}
}

// each checks that objects have their number of ranks, but for the last one.
func each(t *testing.T, m *topo.Machine, want job.Binding, places []Place) {
	objects := m.Packages
	if want.Map == job.NUMA {
		objects = nil
		for _, n := range m.Memories {
			objects = append(objects, n.Object)
		}
	}
	for first := 0; first < len(places); first += int(want.PerObj) {
		i := slices.IndexFunc(objects, func(o topo.Object) bool { return o.CPUs.Meets(places[first].CPUs) })
		n := 0
		for rank, p := range places {
			if p.CPUs.In(objects[i].CPUs) {
				require.GreaterOrEqual(t, rank, first)
				n++
			}
		}
		require.Equal(t, min(int(want.PerObj), len(places)-first), n)
	}
}

// TestOdd only wants answers: machines that keep no more than the promises of
// topo.Machine, and lists of CPUs as users may write them.
func TestOdd(t *testing.T) {
	seeds(t, machines, func(t *testing.T, r *rand.Rand) {
		m := hwloctest.Odd(r, 64)
		for range 8 {
			want, omp := anyRequest(r)
			n := r.IntN(2*m.Allowed.Len() + 2)
			places, _, err := Places(m, want, n, omp)
			if err != nil {
				require.Empty(t, places)
				continue
			}
			require.Len(t, places, n)
			for _, p := range places {
				require.True(t, p.CPUs.In(m.Allowed))
				require.True(t, p.Mems.In(m.AllowedMems))
			}
		}
	})
}
