package recovery

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/wire/rankwire"
)

// TestMayJoin requires that an agent accepts a new parent that is as near to the root as the present one or nearer.
func TestMayJoin(t *testing.T) {
	require.True(t, MayJoin(3, 1))
	require.True(t, MayJoin(3, 3))
	require.False(t, MayJoin(1, 3), "the present parent is nearer to the root")
}

// TestSent requires that Granted removes a message only if all of its bytes are granted, and that Take returns the
// rest.
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

// TestReports requires that Reports retains a report only once, and until Passed removes it. First must return true for
// the first arrival of a report, and false when the report arrives again.
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

// TestSignals requires that After(n) returns the signals after the first n, and at most the last keptSignals of them.
func TestSignals(t *testing.T) {
	var s Signals
	for n := range uint8(20) {
		s.Add(n)
	}
	require.Empty(t, s.After(20))
	require.Equal(t, []uint8{18, 19}, s.After(18))
	require.Len(t, s.After(0), keptSignals)
	require.Empty(t, s.After(30), "30 is more than the number of signals")
}

// TestInput adds frames of 100 bytes, of which at least the last 250 bytes must be retained. After must return false if
// it is asked for frames that are not retained.
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

// TestStreams requires that Next returns the position of each chunk of output. Fresh must count the bytes that have
// arrived before, and the bytes that are missing.
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

// TestAsked repeats a question before and after its answer. Ask must recognise the repetition, and return the answer if
// it has arrived. A new question with the ID of an answered one must not count as a repetition.
func TestAsked(t *testing.T) {
	var a Asked
	name, spawn := rankwire.Name{Rank: 3, ID: 1}, rankwire.SpawnJob{Rank: 3}
	for _, again := range []bool{false, true} {
		_, known := a.Ask(name, again)
		require.Equal(t, again, known)
	}
	_, known := a.Ask(spawn, true)
	require.False(t, known, "this agent has not received the question before")
	require.Len(t, a.Open(), 2)
	answer := rankwire.Name{Rank: 3, ID: 1, Done: true}
	require.True(t, a.Answer(answer))
	require.False(t, a.Answer(answer), "the question was answered already")
	got, known := a.Ask(name, true)
	require.True(t, known)
	require.Equal(t, answer, got)
	_, known = a.Ask(name, false)
	require.False(t, known)
	require.True(t, a.Answer(rankwire.JobSpawned{Rank: 3}))
}
