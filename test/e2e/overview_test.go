package e2e

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// overview lets all ranks ask at a time what all do. Then all but one wait in a barrier, and the
// one sees that from its own node before it comes.
func (r *rank) overview(victim int) {
	_, err := r.Overview(r.ctx)
	require.NoError(r, err)
	for r.Rank() == victim {
		o, err := r.Overview(r.ctx)
		require.NoError(r, err)
		for _, g := range o.Groups {
			if g.State != "waits" || g.Count < r.Size()-1 {
				continue
			}
			require.Equal(r, "Barrier", g.Collective)
			first := o.Ranks[0]
			require.Equal(r, []any{victim, os.Getpid(), "joined"}, []any{first.Rank, first.PID, first.State})
			fmt.Printf("%s wait for rank %d on %s; %d nodes, %d silent\n", g.Ranks, first.Rank, first.Host, o.Nodes,
				o.Silent)
			victim = -1
		}
	}
	require.NoError(r, r.Barrier(r.ctx))
}

// A rank sees by its agent what all ranks of the job do, however many ask.
func TestOverview(t *testing.T) {
	o := worlds(t, five("--lazy", "kary:2"), "overview", "7")
	require.Equal(t, 0, o.code, o.stderr)
	require.Equal(t, "0-6,8-14 wait for rank 7 on n3; 5 nodes, 0 silent\n", string(o.stdout))
}
