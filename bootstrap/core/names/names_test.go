package names

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/rankwire"
	"ibrun/job"
)

func question(rank job.Slot, do rankwire.Naming, port string) rankwire.Name {
	return rankwire.Name{Rank: rank, Do: do, Service: "ocean", Port: port}
}

// A service has one port, which is published, found and taken back, by any related job; the answer
// goes to the job that asked.
func TestOnePort(t *testing.T) {
	s := New(false)
	for _, c := range []struct {
		job  uint32
		do   rankwire.Naming
		port string
		done bool
		gets string
	}{
		{0, rankwire.NameLookup, "", false, ""},
		{0, rankwire.NameUnpublish, "", false, ""},
		{3, rankwire.NamePublish, "p1", true, "p1"},
		{0, rankwire.NamePublish, "p2", false, "p2"},
		{0, rankwire.NameLookup, "", true, "p1"},
		{4, rankwire.NameUnpublish, "", true, ""},
		{3, rankwire.NameLookup, "", false, ""},
		{0, rankwire.NamePublish, "p2", true, "p2"},
	} {
		want := question(5, c.do, c.gets)
		want.Done = c.done
		require.Equal(t, []Effect{{Do: Answer, Job: c.job, Name: want}}, s.Question(c.job, question(5, c.do, c.port)),
			"%+v", c)
	}
	other := rankwire.Name{Service: "land", Do: rankwire.NameLookup}
	require.Equal(t, []Effect{{Do: Answer, Name: other}}, s.Question(0, other), "another service has none")
}

// A spawned job asks its parent, and answers come in the order of questions.
func TestParentHasNames(t *testing.T) {
	s := New(true)
	require.Empty(t, s.Answered(question(0, rankwire.NameLookup, "")), "nobody asked")
	first, second := question(1, rankwire.NameLookup, ""), question(2, rankwire.NamePublish, "p")
	require.Equal(t, []Effect{{Do: Ask, Name: first}}, s.Question(7, first))
	require.Equal(t, []Effect{{Do: Ask, Name: second}}, s.Question(0, second))
	first.Port, first.Done, second.Done = "q", true, true
	require.Equal(t, []Effect{{Do: Answer, Job: 7, Name: first}}, s.Answered(first))
	require.Equal(t, []Effect{{Do: Answer, Job: 0, Name: second}}, s.Answered(second))
	require.Empty(t, s.Answered(second))
}
