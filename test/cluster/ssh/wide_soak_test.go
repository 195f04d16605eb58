//go:build soak

package ssh

import (
	"testing"

	"ibrun/test/vcluster/cluster"
)

func TestControlOfManyRanks(t *testing.T) { controlOverNodes(t, 16, 16) }

func TestResizeOfManyNodes(t *testing.T) { resizeOverNodes(t, 8, 4, 8) }

// 64 nodes over each kind of session and tree; 1,024 ranks in the tree that is planned.
func TestAllTreesOnSixtyFourNodes(t *testing.T) {
	c := cluster.Require(t, cluster.Config{Nodes: 64, RSH: true})
	for _, session := range []string{"ssh", "rsh", "stand-in"} {
		for _, tree := range []string{"flat", "kary:2", "kary:8", "two-level"} {
			launchOn(t, c, session, tree, 64, 2)
		}
		launchOn(t, c, session, "greedy", 64, 16)
	}
	exchangeOn(t, c, "auto", 64, 16)
	exchangeOn(t, c, "kary:2", 64, 4)
	requireNothingLeft(t, c)
}
