package subtree

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/job"
)

// part is nodes of one rank each.
func part(first job.Slot, count uint32) job.Part {
	nodes := job.NewNodes(first, []job.Run{{Prefix: "n", Width: 1, Lo: uint64(first), Count: count, Ranks: 1}})
	return job.Part{First: job.NodeIndex(first), Nodes: nodes}
}

// A rank is found at the child that has it, also where a child has several stretches and a later
// child has what lies between them.
func TestWhichChildHasARank(t *testing.T) {
	var s Subtree
	s.Own.Open(4, 2)
	s.Adopt()
	s.Adopt()
	s.Adopt()
	require.False(t, s.Routed())
	parts := []job.Parts{{part(6, 2), part(10, 1)}, nil, {part(8, 2)}}
	s.Route(func(l Link) job.Parts { return parts[l] })
	require.True(t, s.Routed())
	want := map[job.Slot]Link{6: 0, 7: 0, 8: 2, 9: 2, 10: 0}
	for rank := range job.Slot(13) {
		l, found := s.Child(rank)
		_, below := want[rank]
		require.Equal(t, below, found, "rank %d", rank)
		require.Equal(t, want[rank], l, "rank %d", rank)
		require.Equal(t, below || rank == 4 || rank == 5, s.Covers(rank), "rank %d", rank)
	}
	require.Equal(t, parts[0], s.Parts(0))
}

func TestRanks(t *testing.T) {
	var r Ranks
	r.Open(7, 3)
	require.Equal(t, uint32(3), r.Count())
	require.Equal(t, []bool{false, true, true, true, false}, []bool{r.Has(6), r.Has(7), r.Has(8), r.Has(9), r.Has(10)})
	r.Of(8).Join()
	r.Renumber(2)
	var joined []bool
	for rank, p := range r.All() {
		require.Equal(t, len(joined), r.Index(rank))
		joined = append(joined, p.Joined())
	}
	require.Equal(t, []bool{false, true, false}, joined)
	require.Equal(t, job.Slot(2), r.First())
	require.Equal(t, uint16(1), r.Newest())
	r.Of(3).Join()
	require.Equal(t, uint16(2), r.Newest())
	r.Drop()
	require.Zero(t, r.Newest())
	require.Zero(t, r.Count())
	require.False(t, r.Has(2))
}

// Of a rank's programs each has an epoch of its own. While the rank runs, another one may come, so
// only earlier epochs are over; after its exit, or if it has never joined, all are.
func TestProgramsOfARank(t *testing.T) {
	var p Program
	require.False(t, p.Joined())
	require.Equal(t, uint16(1), p.Epoch())
	require.False(t, p.Left(1))

	require.True(t, p.Join())
	require.True(t, p.End(true), "it was in the job")
	require.False(t, p.End(false), "it was not")
	require.True(t, p.Failed() && p.Ended() && p.MayReturn())
	require.True(t, p.Left(1))
	require.False(t, p.Left(2), "the next program may come")

	require.True(t, p.Join())
	require.Equal(t, uint16(2), p.Epoch())
	require.False(t, p.Failed() || p.Ended(), "what the first one did does not count")
	require.False(t, p.Left(1))
	require.True(t, p.Exit(false))
	require.True(t, p.Exited() && p.Left(2) && p.Left(3) && !p.MayReturn())

	never := Program{}
	never.End(true)
	require.True(t, never.Left(1) && never.Left(2), "who never joined does not return")

	last := Program{joined: true, earlier: job.MaxProgram - 1}
	require.Equal(t, uint16(job.MaxProgram), last.Epoch())
	require.False(t, last.Join())
	require.Equal(t, uint16(job.MaxProgram), last.Epoch())
}

// A floor of all ranks is one number, above which single ranks may have their own.
func TestFloorOfAll(t *testing.T) {
	var f Floors
	f.Raise(3, 2, 1025)
	f.Raise(7, 1, 3073)
	f.RaiseAll(2049)
	require.Equal(t, []uint16{2049, 2049, 3073}, []uint16{f.Of(0), f.Of(3), f.Of(7)})
	f.Raise(4, 1, 2049)
	require.Equal(t, map[job.Slot]uint16{7: 3073}, maps.Collect(f.All()))
	f.RaiseAll(1025)
	require.Equal(t, uint16(2049), f.OfAll(), "it never falls")
}
