package core

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/wire"
	"ibrun/internal/job"
)

// An agent whose node leaves, and which has a node below it that stays, goes on without ranks: it
// looks what these have left, says that they are gone, and passes collectives of the others on.
func TestAgentThatStaysWithoutRanks(t *testing.T) {
	s := newScenario(t, "agent 3 4\nnodes 1 1 1 1\nlate")
	begin := s.begin.(Frame)
	launch := begin.Msg.(wire.Launch)
	nodes := job.NewNodes(0, []job.Run{{Prefix: "n", Width: 1, Count: 4, Ranks: 1}})
	launch.Share = job.Parts{{First: 1, Nodes: nodes.Slice(1, 2)}}
	s.begin = Frame{Up, launch}
	s.step(s.begin)
	do := func(line string, want ...string) {
		t.Helper()
		require.Equal(t, want, s.happens(line), line)
	}
	do("ChildUp child=0", "0 <- Launch nodes=n1 first=1 level=2 credit=524288")
	s.happens("0 -> Ready up=1")
	s.happens("ForkDone")
	s.happens("rank 3 -> Hello")
	s.happens("rank 3 -> Collect op=1 what=Resize")
	do("0 -> Collect op=1 what=Resize", "up <- Collect op=1 what=Resize")
	do("up -> Resize step=done layout=3x1", "0 <- Resize step=done layout=3x1", "rank 3 <- Resize step=done layout=3x1")
	do("up -> Release op=1 what=Resize", "0 <- Release op=1 what=Resize", "rank 3 <- Release op=1 what=Resize")
	do("0 -> Collect op=2", "up <- Collect op=2 what=Barrier")
	do("up -> Release op=2", "0 <- Release op=2 what=Barrier")
	s.happens("rank 3 -> Finalize")
	s.happens("RankExited rank=3 status=exit:0")
	do("RankDrained rank=3", "Sweep most=2s")
	do("Swept", "up <- Departed")
	do("0 -> Exit runs=[1+1:exit:0]", "up <- Exit runs=[1+1:exit:0]", "Finish")
}
