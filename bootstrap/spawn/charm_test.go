package spawn

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/core"
	"ibrun/internal/job"
)

// servingCharm returns a node with the ranks 4 and 5 and an open port for Charm++ programs.
func servingCharm(t *testing.T) (*Set, chan Event) {
	events := make(chan Event, 100)
	s := &Set{cfg: Config{Job: &job.Job{Size: 8, Nodes: 4}, NodeIndex: 2, Events: recorder(func(ev Event) { events <- ev })}}
	require.NoError(t, s.offerCharm())
	require.NoError(t, s.offerCharm(), "it is open")
	return s, events
}

// Programs of a job agree on a number that those of another job do not have, and that says nothing
// of the secret.
func TestNetMagic(t *testing.T) {
	seen := map[uint32]bool{}
	for i := range 100 {
		n := netMagic([]byte(strconv.Itoa(i)))
		require.Equal(t, n, netMagic([]byte(strconv.Itoa(i))))
		require.Less(t, n, uint32(1)<<31)
		seen[n] = true
	}
	require.Len(t, seen, 100)
}

// TestMute requires that the data in a stream is reported when the stream is muted, and that later data is dropped.
func TestMute(t *testing.T) {
	for _, before := range []string{"", "a line\n", "a line\nand the beginning of one", strings.Repeat("x", 3*chunkSize)} {
		events := make(chan Event, 100)
		r := newReader(4, 1, nil, Config{Job: &job.Job{}, Events: recorder(func(ev Event) { events <- ev })})
		ours, theirs, err := os.Pipe()
		require.NoError(t, err)
		wrote := make(chan error)
		go func() {
			_, err := theirs.WriteString(before[:min(len(before), 60000)]) // as much as a pipe holds
			wrote <- err
		}()
		require.NoError(t, <-wrote)
		r.start(ours, nil)
		muted := make(chan bool)
		go func() { r.mute(); close(muted) }()
		got := ""
		for over := false; !over; {
			select {
			case ev := <-events:
				got += string(ev.(core.RankOutput).Data)
				r.resume()
			case <-muted:
				over = true
			}
		}
		for len(events) > 0 {
			got += string((<-events).(core.RankOutput).Data)
		}
		require.Equal(t, before[:min(len(before), 60000)], got)
		write(t, theirs, "dropped\n")
		theirs.Close()
		<-r.ended
		require.Empty(t, events)
		r.mute() // of a stream that has ended
	}
}

// A file without the words, or that is none, is no program of Charm++. This test's binary is not:
// it has one of the words only.
func TestStartsByCharmrun(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	for _, path := range []string{self, t.TempDir(), t.TempDir() + "/absent", "charm_test.go", "/bin/true"} {
		require.False(t, startsByCharmrun(path, nil), path)
	}
}
