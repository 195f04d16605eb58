package names

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/rankwire"
	"ibrun/job"
)

func ask(rank job.Slot, do rankwire.Naming, port string) rankwire.Name {
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
		want := ask(5, c.do, c.gets)
		want.Done = c.done
		require.Equal(t, []Effect{{Do: Answer, Job: c.job, Name: want}}, s.Question(c.job, ask(5, c.do, c.port)),
			"%+v", c)
	}
	other := rankwire.Name{Service: "land", Do: rankwire.NameLookup}
	require.Equal(t, []Effect{{Do: Answer, Name: other}}, s.Question(0, other), "another service has none")
}

// A spawned job asks its parent, with numbers of its own, and answers come in any order.
func TestParentHasNames(t *testing.T) {
	s := New(true)
	require.Empty(t, s.Answered(ask(0, rankwire.NameLookup, "")), "nobody asked")
	first, second := ask(1, rankwire.NameLookup, ""), ask(2, rankwire.NamePublish, "p")
	first.ID, second.ID = 9, 9
	numbered := func(m rankwire.Name, id uint32) rankwire.Name {
		m.ID = id
		return m
	}
	require.Equal(t, []Effect{{Do: Ask, Name: numbered(first, 1)}}, s.Question(7, first))
	require.Equal(t, []Effect{{Do: Ask, Name: numbered(second, 2)}}, s.Question(0, second))
	first.Port, first.Done, second.Done = "q", true, true
	require.Equal(t, []Effect{{Do: Answer, Job: 0, Name: second}}, s.Answered(numbered(second, 2)))
	require.Equal(t, []Effect{{Do: Answer, Job: 7, Name: first}}, s.Answered(numbered(first, 1)))
	require.Empty(t, s.Answered(numbered(second, 2)))
}

// Lookups that wait are answered in their order; a port that is read once is taken by the first of
// them, and the others wait on. Those of a job that has ended are forgotten.
func TestWaiting(t *testing.T) {
	s := New(false)
	wait := func(rank job.Slot) rankwire.Name {
		m := ask(rank, rankwire.NameLookup, "")
		m.Wait = true
		return m
	}
	answers := func(effects []Effect) (list []uint32) {
		for _, e := range effects {
			list = append(list, e.Job)
		}
		return list
	}
	for job := range uint32(4) {
		require.Empty(t, s.Question(job, wait(0)))
	}
	s.JobEnded(2)
	once := ask(5, rankwire.NamePublish, "p1")
	once.Once = true
	out := s.Question(9, once)
	require.Equal(t, []uint32{9, 0}, answers(out))
	require.Equal(t, "p1", out[1].Name.Port)
	require.Equal(t, []uint32{9, 1, 3}, answers(s.Question(9, ask(5, rankwire.NamePublish, "p2"))))
	require.Equal(t, []uint32{4}, answers(s.Question(4, wait(0))), "it is there")
	require.Empty(t, s.waiting)
}

// The table is bounded, in bytes and in lookups that wait.
func TestBounds(t *testing.T) {
	s := New(false)
	big := ask(0, rankwire.NamePublish, string(make([]byte, maxBytes/2)))
	require.True(t, s.Question(0, big)[0].Name.Done)
	big.Service = "another"
	require.False(t, s.Question(0, big)[0].Name.Done)
	require.True(t, s.Question(0, ask(0, rankwire.NameUnpublish, ""))[0].Name.Done)
	require.True(t, s.Question(0, big)[0].Name.Done)
	for range maxLookups {
		s.Question(0, rankwire.Name{Service: "none", Do: rankwire.NameLookup, Wait: true})
	}
	require.Len(t, s.Question(0, rankwire.Name{Service: "none", Do: rankwire.NameLookup, Wait: true}), 1)
}
