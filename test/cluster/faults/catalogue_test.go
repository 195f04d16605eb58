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

// playCases plays the cases of the catalogue. If soak is not set, it omits the cases that only make soak plays.
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
	slices.SortStableFunc(cases, func(a, b entry) int { return b.waits() - a.waits() })
	onSites(t, 3, seeing(nodes), cases, func(s *site, e entry) {
		wrong, output := s.enact(&e)
		report(t, e, wrong, output)
	})
}

// waits returns 1 for a case in which ibrun must first notice by a timeout that a node is lost, and 0 for other cases.
// playCases plays the slow cases first, so that no cluster has to play one alone at the end.
func (e entry) waits() int {
	if e.cut {
		return 1
	}
	return 0
}
