package subtree

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/job"
)

// Renumber(2) numbers the three ranks from 2 on, so that rank 8, which has joined, becomes rank 3. Each rank must keep
// the state of its program.
func TestRenumberKeepsPrograms(t *testing.T) {
	var r Ranks
	r.Open(7, 3)
	r.Of(8).Join()
	r.Renumber(2)
	var joined []job.Slot
	for rank, p := range r.All() {
		if p.Joined() {
			joined = append(joined, rank)
		}
	}
	require.Equal(t, []job.Slot{3}, joined)
	r.Drop()
	require.Zero(t, r.Count())
}

// A rank may run several programs one after the other, which are numbered from 1. Left(n) reports whether the rank has
// ended its programs up to number n, and none of them can follow. TestProgramsOfARank requires that Left is false while
// a program runs. After program 1 has ended, Left(1) is true and Left(2) is false. After the exit of the rank, or if it
// has ended without joining, Left is true for all numbers.
func TestProgramsOfARank(t *testing.T) {
	var p, neverJoined Program
	p.Join()
	p.End(true)
	require.True(t, p.Left(1))
	require.False(t, p.Left(2), "the rank may still run program 2")
	p.Join()
	require.False(t, p.Left(1))
	p.Exit(false)
	require.True(t, p.Left(2) && p.Left(3) && !p.MayReturn())

	neverJoined.End(true)
	require.True(t, neverJoined.Left(1) && neverJoined.Left(2), "a rank that ended without joining cannot return")

	last := Program{joined: true, earlier: job.MaxProgram - 1}
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
