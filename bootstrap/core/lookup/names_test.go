package lookup

import (
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/wire/rankwire"
	"ibrun/internal/job"
)

func ask(rank job.Slot, do rankwire.Naming, port string) rankwire.Name {
	return rankwire.Name{Rank: rank, Do: do, Service: "ocean", Port: port}
}

// TestWaiting publishes a service after jobs 1 and 2 have looked it up. Each of these lookups must wait for the service
// and be answered once, the earlier one first.
func TestWaiting(t *testing.T) {
	s := NewNames(false)
	lookup := ask(0, rankwire.NameLookup, "")
	lookup.Wait = true
	require.Empty(t, s.Question(1, lookup))
	require.Empty(t, s.Question(2, lookup))
	var answered []uint32
	for _, e := range s.Question(9, ask(5, rankwire.NamePublish, "p1")) {
		answered = append(answered, e.Job)
	}
	require.Equal(t, []uint32{9, 1, 2}, answered)
	require.Empty(t, s.waiting)
}

// The table is bounded, in bytes and in lookups that wait.
func TestBounds(t *testing.T) {
	s := NewNames(false)
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
