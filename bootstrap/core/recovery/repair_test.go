package recovery

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/wire/rankwire"
)

// An agent goes with the one that is nearer to the root, and back to one of the same level.
func TestMayJoin(t *testing.T) {
	require.True(t, MayJoin(3, 1))
	require.True(t, MayJoin(3, 3))
	require.False(t, MayJoin(1, 3), "it has given that one up")
}

func TestSent(t *testing.T) {
	var s Sent[string]
	s.Add("a", 10)
	s.Add("b", 5)
	s.Add("c", 5)
	require.Empty(t, s.Granted(9))
	require.Equal(t, []string{"a", "b"}, s.Granted(15))
	require.Equal(t, []string{"c"}, s.Take())
	require.Zero(t, s.Len())
}

// A report is kept once, until it has passed, and is the first of its number once.
func TestReports(t *testing.T) {
	var at, root Reports[string]
	one, two := at.Next(), at.Next()
	at.Keep(7, one, "one")
	at.Keep(7, two, "two")
	at.Keep(7, one, "again")
	require.Equal(t, []string{"one", "two"}, at.Kept())
	at.Passed(7, one)
	at.Passed(8, 9)
	require.Equal(t, []string{"two"}, at.Kept())
	require.True(t, root.First(7, one))
	require.False(t, root.First(7, one))
	require.True(t, root.First(7, two))
	require.True(t, root.First(8, 1))
}

func TestSignals(t *testing.T) {
	var s Signals
	for n := range uint8(20) {
		s.Add(n)
	}
	require.Empty(t, s.After(20))
	require.Equal(t, []uint8{18, 19}, s.After(18))
	require.Len(t, s.After(0), keptSignals)
	require.Empty(t, s.After(30), "more than there were")
}

// Of input at least the last bytes are kept, in whole frames.
func TestInput(t *testing.T) {
	var in Input[string]
	for range 10 {
		in.Add("data", 100, 250)
	}
	in.Add("end", 0, 250)
	missed, kept := in.After(8)
	require.True(t, kept)
	require.Len(t, missed, 3)
	require.Equal(t, "end", missed[2])
	_, kept = in.After(5)
	require.False(t, kept)
	missed, kept = in.After(11)
	require.True(t, kept)
	require.Empty(t, missed)
}

// The root has each byte once, and sees what is missing.
func TestStreams(t *testing.T) {
	s, of := Streams{}, Stream{Rank: 3, Number: 1}
	require.Zero(t, s.Next(of, 10))
	require.EqualValues(t, 10, s.Next(of, 5))
	for _, c := range []struct {
		at      uint64
		n       int
		known   int
		missing uint64
	}{{10, 5, 5, 0}, {10, 8, 5, 0}, {18, 2, 0, 0}, {30, 1, 0, 10}, {31, 1, 0, 0}} {
		known, missing := s.Fresh(of, c.at, c.n)
		require.Equal(t, c.known, known, c)
		require.Equal(t, c.missing, missing, c)
	}
}

// A question that comes again is on its way, or has its answer; a new one of the same name is
// another one.
func TestAsked(t *testing.T) {
	var a Asked
	name, spawn := rankwire.Name{Rank: 3, ID: 1}, rankwire.SpawnJob{Rank: 3}
	for _, again := range []bool{false, true} {
		_, known := a.Ask(name, again)
		require.Equal(t, again, known)
	}
	_, known := a.Ask(spawn, true)
	require.False(t, known, "it was lost on its way")
	require.Len(t, a.Open(), 2)
	answer := rankwire.Name{Rank: 3, ID: 1, Done: true}
	require.True(t, a.Answer(answer))
	require.False(t, a.Answer(answer), "once")
	got, known := a.Ask(name, true)
	require.True(t, known)
	require.Equal(t, answer, got)
	_, known = a.Ask(name, false)
	require.False(t, known)
	require.True(t, a.Answer(rankwire.JobSpawned{Rank: 3}))
}
