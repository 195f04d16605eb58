package bind

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/cpuset"
	"ibrun/job"
	"ibrun/topo"
)

const machines = 4000

// anyMachine makes a machine that Read could have made: CPUs numbered anyhow,
// cores of one to three threads, objects of all sizes, holes in what is
// allowed. Half have several packages per NUMA node.
func anyMachine(r *rand.Rand) *topo.Machine {
	b := builder{&topo.Machine{Load: -1}, map[string]int{}, map[string]int{}}
	outers := 1 + r.IntN(4)
	inner := make([]int, outers)
	for i := range inner {
		inner[i] = 1 + r.IntN(3)
	}
	packagesInside, caches := r.IntN(2) == 0, r.IntN(4)
	cpus := r.Perm(400)
	next, group := 0, 0
	for o := range outers {
		for range inner[o] {
			p, n := o, group
			if packagesInside {
				p, n = n, p
			}
			group++
			for c := range max(caches, 1) {
				cache := "-"
				if caches > 0 {
					cache = fmt.Sprint(group, ".", c)
				}
				for range 1 + r.IntN(5) {
					threads := 1 + r.IntN(3)
					b.core(fmt.Sprint(p), n, cache, cpuset.Of(cpus[next:next+threads]...))
					next += threads
				}
			}
		}
	}
	if r.IntN(2) == 0 {
		b.Allowed = some(r, b.Online)
	}
	if r.IntN(4) == 0 {
		b.Slower = some(r, b.Online)
	}
	for i := range b.Memories {
		if r.IntN(5) == 0 {
			b.Memories[i].Bytes = 0
		}
		if r.IntN(2) == 0 {
			for range b.Memories {
				b.Memories[i].Distance = append(b.Memories[i].Distance, 10+r.IntN(3))
			}
		}
	}
	if r.IntN(3) == 0 {
		b.AllowedMems = some(r, b.AllowedMems)
	}
	return b.Machine
}

// oddMachine makes one that holds what Machine promises and nothing more: each
// CPU is in some core, some NUMA node and some package, and that is all.
func oddMachine(r *rand.Rand) *topo.Machine {
	m := &topo.Machine{}
	cpus := r.Perm(64)[:1+r.IntN(64)]
	m.Online = cpuset.Of(cpus...)
	deal := func() (objects []topo.Object) {
		objects = make([]topo.Object, 1+r.IntN(len(cpus)))
		for _, cpu := range cpus {
			objects[r.IntN(len(objects))].CPUs.Add(cpu)
		}
		for i := range objects {
			objects[i].ID = r.IntN(5) - 1
		}
		return objects
	}
	m.Cores, m.Packages = deal(), deal()
	for i, o := range deal() {
		m.Memories = append(m.Memories, topo.Memory{Object: o, Bytes: r.Uint64N(2), Distance: make([]int, r.IntN(4))})
		m.Memories[i].ID = 3 * i
	}
	for range r.IntN(5) {
		m.L3s = append(m.L3s, topo.Object{ID: -1, CPUs: some(r, cpuset.Span(0, 99))})
	}
	m.Slower = some(r, cpuset.Span(0, 99))
	m.Allowed, m.AllowedMems = some(r, m.Online), some(r, cpuset.Span(0, 99))
	m.Quota = float64(r.IntN(3)) / 2
	return m
}

// some is a part of a set, and never nothing of it.
func some(r *rand.Rand, of cpuset.Set) (s cpuset.Set) {
	likely := 1 + r.IntN(9)
	for n := range of.All() {
		if r.IntN(10) < likely {
			s.Add(n)
		}
	}
	if s.Empty() {
		s.Add(of.First())
	}
	return s
}

// anyRequest makes words; some of them cannot be met.
func anyRequest(r *rand.Rand) (want job.Binding, omp int) {
	pick := func(n int) int { return max(0, r.IntN(2*n)-n) } // 0 in every second one
	want = job.Binding{
		Map: job.Object(pick(int(job.Package) + 1)), Bind: job.Object(pick(int(job.Package) + 1)),
		PE: uint32(pick(6)), PerObj: uint32(pick(4)), Fill: r.IntN(2) == 0, Overload: r.IntN(4) == 0,
	}
	if want.Map == job.Unbound {
		want.Map = job.Unsaid
	}
	for range pick(6) {
		want.CPUs = append(want.CPUs, []string{"0", "1-3", "7", "", "x", "0-9999999"}[r.IntN(6)])
	}
	return want, pick(6)
}

// seeds runs a check on many machines, and says which one failed.
func seeds(t *testing.T, n int, check func(t *testing.T, r *rand.Rand)) {
	for seed := range uint64(n) {
		if !t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { check(t, rand.New(rand.NewPCG(seed, 4))) }) {
			return
		}
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

// TestDefault holds the rule for shares against machines of all shapes.
func TestDefault(t *testing.T) {
	seeds(t, machines, func(t *testing.T, r *rand.Rand) {
		m := anyMachine(r)
		allowed := cores(m, m.Allowed)
		for range 4 {
			n := 1 + r.IntN(m.Allowed.Len())
			if r.IntN(2) == 0 {
				n = 1 + r.IntN(len(allowed))
			}
			omp := r.IntN(5)
			places, notes, err := Places(m, job.Binding{}, n, omp)
			require.NoError(t, err)
			require.Len(t, places, n)
			require.Empty(t, notes)
			var all cpuset.Set
			for _, p := range places {
				require.False(t, p.CPUs.Empty(), "a rank without CPUs")
				require.True(t, p.CPUs.In(m.Allowed), "%s leaves %s", p.CPUs, m.Allowed)
				require.False(t, p.CPUs.Meets(all), "%s is somebody else's too", p.CPUs)
				all = all.Or(p.CPUs)
				if n*omp <= len(allowed) {
					require.GreaterOrEqual(t, len(cores(m, p.CPUs)), omp, "fewer cores than threads")
				}
			}
			require.True(t, all.Equal(m.Allowed), "%s of %s", all, m.Allowed)
			contiguous(t, m, places, n <= len(allowed))
			if omp < 2 {
				within(t, m, places)
			}
			fair(t, m, places, n <= len(allowed))
		}
	})
}

// contiguous checks that shares follow each other in an order of the cores in
// which each package and each NUMA node is in one piece. Nobody takes a part of
// a core as long as there are cores enough.
func contiguous(t *testing.T, m *topo.Machine, places []Place, whole bool) {
	var order []int
	for _, p := range places {
		for _, c := range cores(m, p.CPUs) {
			if whole {
				require.True(t, m.Cores[c].CPUs.And(m.Allowed).In(p.CPUs), "core %s is split", m.Cores[c].CPUs)
			}
			if !slices.Contains(order, c) {
				order = append(order, c)
			}
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return slices.Compare(speeds(m, a), speeds(m, b)) })
	require.True(t, slices.IsSorted(order), "%v is not the order of the cores", order)
}

// speeds sorts cores of one cache by their speed, so that the order in which
// they are shared can be told from a wrong one.
func speeds(m *topo.Machine, core int) []int { return []int{core} }
