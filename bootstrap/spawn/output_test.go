package spawn

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/core"
	"ibrun/internal/job"
	"ibrun/test/waitfor"
)

func next(t *testing.T, events <-chan Event) Event {
	t.Helper()
	return waitfor.Receive(t, events)
}

// printing is a rank's stream 1: the reader of it, what it posts, and the
// rank's end of the pipe.
func printing(t *testing.T, out job.Output, prompts bool) (*reader, <-chan Event, *os.File) {
	from, to, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { to.Close() })
	r, events := reading(from, out, prompts)
	return r, events, to
}

// reading is the reader of a rank's stream 1, and what it posts.
func reading(from pollable, out job.Output, prompts bool) (*reader, <-chan Event) {
	events := make(chan Event, 100)
	var feed *feeder
	if prompts {
		feed = newFeeder(3, nil)
	}
	r := newReader(3, 1, feed, Config{Job: &job.Job{Output: out}, Events: recorder(func(ev Event) { events <- ev })})
	r.start(from, nil)
	return r, events
}

func chunk(text string) Event { return core.RankOutput{Rank: 3, Stream: 1, Data: []byte(text)} }

// The beginning of a line waits for the rest; a whole line does not.
func TestOutputGathersLines(t *testing.T) {
	_, events, to := printing(t, job.Output{}, true)
	for _, piece := range []string{"h", "el", "lo\n"} {
		write(t, to, piece)
	}
	require.Equal(t, chunk("hello\n"), next(t, events))
}

// One chunk is on its way at a time: the rank that prints on has to wait, and what
// it printed meanwhile comes in whole lines, or in pieces if they are too long.
func TestOutputWaitsForResume(t *testing.T) {
	r, events, to := printing(t, job.Output{}, true)
	long := strings.Repeat("x", chunkSize)
	for _, c := range []struct{ print, comes string }{
		{"one\n", "one\n"},
		{"two\nthree\n" + long + "y\nfo", "two\nthree\n"},
		{"ur\n", long},
		{"", "y\nfour\n"},
		{"five\n", "five\n"},
		{long[1:] + "\n", long[1:] + "\n"},
	} {
		write(t, to, c.print)
		require.Equal(t, chunk(c.comes), next(t, events))
		require.Empty(t, events)
		r.resume()
	}
	to.Close()
	r.wait(waitfor.Deadline)
	require.Empty(t, events)
}

// A rank is dead and something that it left behind holds its output open: what
// was printed is read, and the rest is given up.
func TestOutputHeldOpen(t *testing.T) {
	r, events, to := printing(t, job.Output{}, true)
	_, _ = to.WriteString("last words")
	require.Equal(t, chunk("last words"), next(t, events))
	r.resume()
	r.wait(time.Millisecond)
	_, err := to.WriteString("too late")
	require.ErrorContains(t, err, "broken pipe")
	require.Empty(t, events)
	newReader(1, 2, nil, Config{Job: &job.Job{}}).wait(waitfor.Deadline) // of a rank that prints into a file: nothing to wait for
}

// What a rank is fed is counted when it is taken, in order, and its end comes
// after it.
func TestFeed(t *testing.T) {
	events := make(chan Event, 10)
	f := newFeeder(2, recorder(func(ev Event) { events <- ev }))
	f.put([]byte("ab"))
	f.put([]byte("c"))
	f.end()
	require.True(t, f.more())
	from, to, err := os.Pipe()
	require.NoError(t, err)
	f.start(to)
	require.Equal(t, core.RankInputRead{Rank: 2, N: 2}, next(t, events))
	require.Equal(t, core.RankInputRead{Rank: 2, N: 1}, next(t, events))
	b := make([]byte, 10)
	n, err := from.Read(b)
	require.NoError(t, err)
	require.Equal(t, "abc", string(b[:n]))
	_, err = from.Read(b)
	require.Error(t, err, "the end")
	require.False(t, f.more())
	from.Close()
	f.close()
}

// A rank that closes its input says so once; one that dies while it is fed
// holds nobody up.
func TestFeedEndsEarly(t *testing.T) {
	events := make(chan Event, 10)
	f := newFeeder(2, recorder(func(ev Event) { events <- ev }))
	from, to, err := os.Pipe()
	require.NoError(t, err)
	f.start(to)
	from.Close()
	f.put([]byte("x"))
	require.Equal(t, core.RankInputClosed{Rank: 2}, next(t, events))

	f = newFeeder(2, recorder(func(ev Event) { events <- ev }))
	from, to, err = os.Pipe()
	require.NoError(t, err)
	defer from.Close()
	f.start(to)
	f.put(make([]byte, 1<<20)) // more than a pipe holds: the feeder waits in write
	_, err = from.Read(make([]byte, 1))
	require.NoError(t, err)
	f.close()
	require.Equal(t, core.RankInputClosed{Rank: 2}, next(t, events))
	f.put([]byte("late"))
	require.Empty(t, events)
}
