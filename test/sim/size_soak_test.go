//go:build soak

package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func init() {
	scale = sizes{agents: 65536, clientNodes: 4096, nodes: 16384, part: 1, faults: 10_000, repairs: 300, relaunches: 300,
		daemons: 100}
}

// TestFullSize runs with the full sizes the tests that use scale. Without the build tag soak they use smaller sizes.
func TestFullSize(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"AskMillion": TestAskMillion, "BoundsAtAThousand": TestBoundsAtAThousand, "BudgetAtScale": TestBudgetAtScale,
		"ChosenTables": TestChosenTables, "EveryNumberAndShape": TestEveryNumberAndShape, "ExecMany": TestExecMany,
		"FaultsByPlace": TestFaultsByPlace, "FewerNodes": TestFewerNodes, "LateBrokenOff": TestLateBrokenOff,
		"LateCollective": TestLateCollective, "LateCostsWhatAFixedTreeCosts": TestLateCostsWhatAFixedTreeCosts,
		"LateInAnyOrder": TestLateInAnyOrder, "LaunchWithSlowAndDeadNodes": TestLaunchWithSlowAndDeadNodes,
		"PMIBytesAtScale": TestPMIBytesAtScale, "PMIxAtScale": TestPMIxAtScale, "RandomDaemons": TestRandomDaemons,
		"RandomFaults": TestRandomFaults, "RandomFaultsRepeat": TestRandomFaultsRepeat,
		"RandomPairsCrossEdgesOnce": TestRandomPairsCrossEdgesOnce, "RandomRelaunches": TestRandomRelaunches,
		"RandomRepairs": TestRandomRepairs, "StencilAtScale": TestStencilAtScale,
		"MillionRanks": func(t *testing.T) {
			began := time.Now()
			TestMillionRanks(t)
			require.Less(t, time.Since(began), 120*time.Second, "the bound of docs/launch.md")
		},
	} {
		t.Run(name, test)
	}
}
