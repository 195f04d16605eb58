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
