//go:build cluster || soak

package faults

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// nodes is the number of nodes of the jobs of the catalogue, and deep is their tree of agents, of depth three.
var nodes, deep = 3, "chain"

// playCases runs the cases of the catalogue whose names contain the text of -case. If soak is false, it omits the cases
// with the field soak set.
func playCases(t *testing.T, soak bool) {
	cases := slices.Concat(inputCases(), launchCases(), runningCases(), attackCases())
	seen := map[string]bool{}
	for _, e := range cases {
		require.False(t, seen[e.fault], "case %s is listed twice", e.fault)
		seen[e.fault] = true
	}
	cases = slices.DeleteFunc(cases, func(e entry) bool {
		return e.soak && !soak || !strings.Contains(e.String(), *match)
	})
	slices.SortStableFunc(cases, func(a, b entry) int { return b.priority() - a.priority() })
	onSites(t, 3, configWithProgram(nodes), cases, func(s *site, e entry) {
		wrong, output := s.enact(&e)
		report(t, e, wrong, output)
	})
}

// priority returns 1 for a case that cuts off a node, and 0 for any other case. ibrun notices the cut only by a
// timeout, so these cases take longest. playCases starts them first, so that no cluster runs a long case while the
// others are idle.
func (e entry) priority() int {
	if e.cut {
		return 1
	}
	return 0
}
