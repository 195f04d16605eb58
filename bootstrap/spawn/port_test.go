package spawn

import (
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/internal/job"
)

// listening returns a node with the ranks 4 and 5 and an open port for PMI.
func listening(t *testing.T) (*Set, chan Event) {
	events := make(chan Event, 1000)
	s := &Set{cfg: Config{Events: recorder(func(ev Event) { events <- ev })}}
	require.NoError(t, s.PMI.open(job.Node{First: 4, Ranks: 2}, s.cfg.Events))
	return s, events
}

// told is what a rank's environment says of the port.
func (p *pmiPort) told(t *testing.T, rank uint32) (address string, id int) {
	env := p.environ(job.Slot(rank))
	require.Len(t, env, 2)
	address, ok := strings.CutPrefix(env[0], "PMI_PORT=")
	require.True(t, ok)
	text, ok := strings.CutPrefix(env[1], "PMI_ID=")
	require.True(t, ok)
	id, err := strconv.Atoi(text)
	require.NoError(t, err)
	return address, id
}

// dial connects to the port and sends words.
func (p *port) dial(t *testing.T, words string) net.Conn {
	c, err := net.Dial("tcp4", "127.0.0.1:"+strconv.Itoa(p.number))
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	write(t, c, words)
	return c
}

// dial connects to the port, sends words and waits until they are posted. It also returns the number of the connection.
func dial(t *testing.T, s *Set, events <-chan Event, words string) (net.Conn, uint32) {
	c := s.PMI.dial(t, words)
	ev, ok := next(t, events).(CallBytes)
	require.True(t, ok)
	require.Equal(t, words, string(ev.Words))
	return c, ev.Call
}

// The port is on the loopback; each rank has a number of its own, which nobody
// guesses from another's and which fits the int that clients read it into.
func TestPortNumbersAreSecret(t *testing.T) {
	seen := map[int]bool{}
	for range 20 {
		var p pmiPort
		require.NoError(t, p.open(job.Node{First: 4, Ranks: 50}, recorder(func(Event) {})))
		for rank := uint32(4); rank < 54; rank++ {
			at, id := p.told(t, rank)
			require.Equal(t, "127.0.0.1:"+strconv.Itoa(p.number), at)
			require.True(t, 0 <= id && id < 1<<31)
			seen[id] = true
		}
		require.Nil(t, p.environ(54))
	}
	require.Greater(t, len(seen), 990)
	small := 0
	for id := range seen {
		if id < 1<<24 {
			small++
		}
	}
	require.Less(t, small, 100, "all bits are drawn")
}

// TestPortBinds requires that a connection belongs to no rank until the client sends a valid PMI_ID, and that an
// answer reaches only this connection.
func TestPortBinds(t *testing.T) {
	s, events := listening(t)
	_, id := s.PMI.told(t, 5)
	a, first := dial(t, s, events, "cmd=init\n")
	_, second := dial(t, s, events, "cmd=other\n")
	require.NotEqual(t, first, second)
	require.Equal(t, []uint32{first, second}, s.PMI.silent)

	_, other := s.PMI.told(t, 4)
	wrong := id ^ 1
	if wrong == other {
		wrong = id ^ 2
	}
	_, refused := s.PMI.BindID(first, wrong)
	require.Equal(t, "no rank has this PMI_ID", refused)
	require.Equal(t, []uint32{first, second}, s.PMI.silent)
	_, refused = s.PMI.BindID(99, id)
	require.Equal(t, "the call is over", refused)

	rank, refused := s.PMI.BindID(first, id)
	require.Empty(t, refused)
	require.Equal(t, job.Slot(5), rank)
	require.Equal(t, []uint32{second}, s.PMI.silent)

	s.PMI.Send(first, []byte("hello\n"))
	s.PMI.HangUp(first)
	s.PMI.Send(99, []byte("nobody"))
	said, err := io.ReadAll(a)
	require.NoError(t, err)
	require.Equal(t, "hello\n", string(said))
	require.Equal(t, CallClosed{first}, next(t, events))
	require.Nil(t, s.PMI.call(first))
}

// TestPortEndsWithTheRank requires that the end of a rank closes the connections bound to it, after all their data,
// and no others.
func TestPortEndsWithTheRank(t *testing.T) {
	s, events := listening(t)
	_, id := s.PMI.told(t, 4)
	a, first := dial(t, s, events, "a")
	_, second := dial(t, s, events, "b")
	_, refused := s.PMI.BindID(first, id)
	require.Empty(t, refused)
	write(t, a, "last words")
	require.NoError(t, a.(*net.TCPConn).CloseWrite())
	s.PMI.end(5)
	s.PMI.end(4)
	require.Equal(t, CallBytes{first, []byte("last words")}, next(t, events))
	require.Equal(t, CallClosed{first}, next(t, events))
	require.NotNil(t, s.PMI.call(second))
}

// So many callers may be silent; when there is one more, the one that has been
// so for longest goes. Those that belong to ranks stay.
func TestPortBoundsSilentCallers(t *testing.T) {
	s, events := listening(t)
	_, id := s.PMI.told(t, 4)
	_, ours := dial(t, s, events, "ours")
	_, refused := s.PMI.BindID(ours, id)
	require.Empty(t, refused)
	silent, oldest := dial(t, s, events, "0")
	for i := range mostSilent - 1 {
		dial(t, s, events, fmt.Sprint(i))
	}
	s.PMI.mu.Lock()
	require.Len(t, s.PMI.silent, mostSilent)
	s.PMI.mu.Unlock()
	s.PMI.dial(t, "")
	require.Equal(t, CallClosed{oldest}, next(t, events))
	_, err := silent.Read(make([]byte, 1))
	require.Error(t, err)
	s.PMI.mu.Lock()
	defer s.PMI.mu.Unlock()
	require.Len(t, s.PMI.silent, mostSilent)
	require.NotNil(t, s.PMI.calls[ours])
}
