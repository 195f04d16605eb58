package core

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// honest are what a neighbour may say though the agent does not know why: of the agent of lies, or
// that of the plan.
var honest = []struct{ plan, before, said, done string }{
	// A fence may have failed for this subtree alone.
	{
		"from running", failedFence,
		"up -> BulkFetch fence=1", "0 <- BulkFetch fence=1\n1 <- BulkFetch fence=1\nReadBulk fence=1",
	},
	// Others have passed a fence after the ranks of this node have ended,
	{"agent 1 2\nrestart 1\nfrom running", rankEnds, "up -> BulkFetch fence=9", "ReadBulk fence=9"},
	// or left the job,
	{
		"agent 4 5\nfrom running", "up -> Resize step=done layout=4x1",
		"up -> BulkFetch fence=9", "ReadBulk fence=9",
	},
	// or before this agent has come to it, whose ranks have nothing to give yet.
	{
		"agent 1 2\nrestart 1\nreplaces", "begin\nup -> Standing number=1 op=7",
		"up -> BulkFetch fence=9", "up <- BulkValues fence=9",
	},
	{"agent 4 5\nheld\nfrom up", "", "up -> BulkFetch fence=9", "up <- BulkValues fence=9"},
	// A collective has failed without ranks that have ended, and the new parent does not know which.
	{
		"agent 1 2\nrepair\nfrom running", rankEnds + "\nSwept\nLinkLost link=up\nRelinked\nup -> Resume credit=1",
		"up -> Release op=1", "",
	},
	// One that has failed with a floor is not repeated.
	{
		"agent 1 2\nrestart 1\nrepair\nfrom running",
		"rank 1 -> Collect op=1\nup -> Floor serial=1 op=70000 first=0 count=1 epoch=1025\nLinkLost link=up\nRelinked",
		"up -> Resume credit=1", "up <- State released=70000 floor=1 begun\nup <- FloorSet serial=1\nup <- Below",
	},
}

// rankEnds is the end of the agent's one rank.
const rankEnds = "RankExited rank=1 status=exit:0\nRankDrained rank=1"

// TestHonest holds that a neighbour which is honest is not taken for a liar.
func TestHonest(t *testing.T) {
	for _, h := range honest {
		name := h.plan + ": " + h.before + ": " + h.said
		plan := "nodes 1 1 1 1 1\ntree kary:2\n" + h.plan
		if !strings.HasPrefix(h.plan, "agent") {
			plan = "agent 1 5\n" + plan
		}
		s := newScenario(t, plan)
		s.replay(h.before)
		require.Equal(t, h.done, strings.Join(s.happens(h.said), "\n"), name)
	}
}

// A program that has ended before the launch is over has joined no collective, and the next one of
// its rank joins once.
func TestNextProgramJoinsOnce(t *testing.T) {
	s := newScenario(t, "agent 1 3\nnodes 1 1 1")
	s.replay("begin\nForkDone\nrank 1 -> Hello\nrank 1 -> Collect op=1\nrank 1 -> Finalize\nrank 1 -> Hello\n" +
		"rank 1 -> Collect op=1\nChildUp child=0\n0 -> Ready up=1")
	require.Equal(t, []string{"up <- Collect op=1 what=Barrier"}, s.happens("0 -> Collect op=1"))
	require.Empty(t, s.happens("0 -> Collect op=2"), "rank 1 has not joined")
}

// An order that has waited for this node's ranks is looked at again before it is passed on: nodes
// may have left the job meanwhile, as agents below know.
func TestHeldOrderIsOld(t *testing.T) {
	s := newScenario(t, "agent 0 2\nnodes 1 1 1\nheld\nfrom up")
	require.Empty(t, s.happens("up -> Daemons id=1 argv=[a] nodes=[{first=0 count=3}]"))
	s.happens("up -> Membership dropped=[{first=2 count=1}]")
	did := strings.Join(s.happens("ForkDone"), "\n")
	require.True(t, strings.HasPrefix(did, "CloseLink link=up"), did)
	require.NotContains(t, did, "0 <- Daemons ", did)
}
