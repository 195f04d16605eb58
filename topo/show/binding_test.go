package show

import (
	"math/rand/v2"
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

func TestRandomMachines(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 4))
		m := hwloctest.Odd(r, 180)
		bound := hwloctest.Some(r, m.Online)
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
