package job

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// How many look-ups of a node are enough to fetch the table of a job.
func TestEnoughForATable(t *testing.T) {
	for _, c := range []struct {
		nodes, perNode uint32
		lookups        int // the fewest that are enough
	}{
		{4, 1, 1},
		{64, 16, 1},
		{256, 1, 1},
		{128, 16, 2},
		{256, 16, 3},
		{1024, 16, 9},
		{4096, 64, 108},
		{65536, 16, 576},
	} {
		bytes := TableBytes(c.nodes, c.nodes*c.perNode)
		require.True(t, Enough(c.lookups, bytes), "%d x %d", c.nodes, c.perNode)
		require.False(t, Enough(c.lookups-1, bytes), "%d x %d", c.nodes, c.perNode)
	}
}
