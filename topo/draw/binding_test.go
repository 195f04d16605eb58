package draw

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/cpuset"
	"ibrun/topo"
	"ibrun/topo/hwloctest"
)

func TestBinding(t *testing.T) {
	limited := rome()
	limited.Allowed = cpuset.Span(0, 15).Or(cpuset.Span(66, 79))
	large := hwloctest.Described("pack:2 numa:4 l3:4 core:64 pu:2 order:split")
	large.Allowed = cpuset.Span(0, 70).Or(cpuset.Of(128))
	for name, c := range map[string]struct {
		machine *topo.Machine
		cpus    cpuset.Set
		want    string
	}{
		"nothing":   {ranger(), cpuset.Set{}, "[./././.][./././.][./././.][./././.]"},
		"a package": {ranger(), cpuset.Span(4, 7), "[./././.][B/B/B/B][./././.][./././.]"},
		"not there": {ranger(), cpuset.Of(15, 16, 4000), "[./././.][./././.][./././.][./././B]"},
		"forbidden": {holes(), cpuset.Of(0, 9, 12), "[B-/B][.B/.]"},
		"threads":   {hybrid(), cpuset.Of(0, 1, 3, 8), "[BB/.B/../../B/././././././.]"},
		"one":       {flat(), cpuset.Of(0), "[B]"},
		"undivided": {undivided(), cpuset.Of(1, 2), "[./B][B/.]"},
		"NUMA nodes": {rome(), cpuset.Span(8, 15),
			"[../../../../../../../..|B./B./B./B./B./B./B./B.|../../../../../../../..|" +
				"../../../../../../../..][../../../../../../../..|../../../../../../../..|../../../../../../../..|" +
				"../../../../../../../..]"},
		"limited": {limited, cpuset.Of(0, 66),
			"[B-/.-/.B/../../../../..|../../../../../../../..|--/--/--/--/--/--/--/--|" +
				"--/--/--/--/--/--/--/--][" +
				"--/--/--/--/--/--/--/--|--/--/--/--/--/--/--/--|--/--/--/--/--/--/--/--|--/--/--/--/--/--/--/--]"},
		"256 CPUs": {big(), cpuset.Span(16, 31).Or(cpuset.Span(144, 159)).Or(cpuset.Span(32, 34)),
			"[.][B][3/16][.][.][.][.][.]"},
		"threads of": {big(), cpuset.Span(16, 31), "[.][16/16][.][.][.][.][.][.]"},
		"large":      {large, cpuset.Of(0, 128).Or(cpuset.Span(32, 66)), "[1/16|.|B|B][3/7|-|-|-]"},
		"overlaid":   {interleaved(), cpuset.Of(0, 4, 96, 191), "[2/48|1/48][.|1/48]"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, Binding(c.machine, c.cpus))
		})
	}
}

// random is any machine that keeps what topo.Machine says of itself: each
// online CPU is in one core, one NUMA node and one package, which need not
// nest.
func random(r *rand.Rand) *topo.Machine {
	m := &topo.Machine{Load: -1, Quota: float64(r.IntN(2))}
	cpus := r.Perm(1 + r.IntN(180))
	m.Packages = make([]topo.Object, 1+r.IntN(min(4, len(cpus))))
	m.Memories = make([]topo.Memory, 1+r.IntN(6))
	m.L3s = make([]topo.Object, r.IntN(90))
	for len(cpus) > 0 {
		threads := min(1+r.IntN(3), len(cpus))
		core := cpuset.Of(cpus[:threads]...)
		cpus = cpus[threads:]
		m.Cores = append(m.Cores, topo.Object{ID: r.IntN(9) - 1, CPUs: core})
		pkg, mem := &m.Packages[r.IntN(len(m.Packages))], &m.Memories[r.IntN(len(m.Memories))]
		pkg.CPUs, mem.CPUs = pkg.CPUs.Or(core), mem.CPUs.Or(core)
		if len(m.L3s) > 0 {
			cache := &m.L3s[r.IntN(len(m.L3s))]
			cache.CPUs = cache.CPUs.Or(core)
		}
		m.Online = m.Online.Or(core)
	}
	empty := func(o topo.Object) bool { return o.CPUs.Empty() }
	m.Packages, m.L3s = slices.DeleteFunc(m.Packages, empty), slices.DeleteFunc(m.L3s, empty)
	for i := range m.Memories {
		m.Memories[i].ID = 3 * i
		m.Memories[i].Bytes = uint64(r.IntN(2)) << r.IntN(45)
	}
	m.AllowedMems = cpuset.Of(3 * r.IntN(len(m.Memories)))
	m.Allowed, m.Slower = some(r, m.Online), some(r, m.Online)
	for range r.IntN(9) {
		noise := make([]byte, r.IntN(200))
		for i := range noise {
			noise[i] = byte(r.IntN(256))
		}
		text, place := string(noise), topo.Place{NUMA: r.IntN(20) - 1}
		m.HCAs = append(m.HCAs, topo.HCA{Name: text, Place: place, Ports: make([]topo.Port, r.IntN(3))})
		for i := range m.HCAs[len(m.HCAs)-1].Ports {
			m.HCAs[len(m.HCAs)-1].Ports[i] = topo.Port{State: text, Physical: text, Layer: text,
				GIDs: []topo.GID{{Link: text}}}
		}
		m.Links = append(m.Links, topo.Link{Name: text, Place: place, Virtual: r.IntN(2) == 0, MTU: r.Int(),
			Speed: r.Int(), Type: r.IntN(3)})
		m.Notes = append(m.Notes, text)
	}
	return m
}

func some(r *rand.Rand, from cpuset.Set) (s cpuset.Set) {
	for n := range from.All() {
		if r.IntN(3) > 0 {
			s.Add(n)
		}
	}
	return s
}

func TestRandomMachines(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 4))
		m := random(r)
		bound := some(r, m.Online)
		line := Binding(m, bound.Or(cpuset.Of(5000)))
		if m.Online.Len() <= singly {
			require.Equal(t, bound.Len(), strings.Count(line, "B"), "seed %d: %s", seed, line)
			require.Equal(t, m.Online.Len(), strings.Count(line, "B")+strings.Count(line, ".")+strings.Count(line, "-"),
				"seed %d: %s", seed, line)
			require.Equal(t, m.Online.Without(m.Allowed).Without(bound).Len(), strings.Count(line, "-"), "seed %d: %s",
				seed, line)
		} else {
			require.NotContains(t, line, "//", "seed %d", seed)
		}
		text := Picture(m)
		require.Equal(t, text, Picture(m), "seed %d", seed)
		for _, row := range strings.Split(text, "\n") {
			require.LessOrEqual(t, len(row), columns, "seed %d: %s", seed, row)
			require.Equal(t, strings.TrimRight(row, " "), row, "seed %d", seed)
		}
		require.NotRegexp(t, `[^ -~\n]`, text, "seed %d", seed)
		_, err := JSON(m)
		require.NoError(t, err, "seed %d", seed)
	}
}
