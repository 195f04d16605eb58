package spawn

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"ibrun/bootstrap/core"
	"ibrun/bootstrap/wire/frame"
	"ibrun/bootstrap/wire/rankwire"
)

// entered returns the control of a rank, which is being read, and the end of the rank. Both are closed when the test
// ends.
func entered(t *testing.T, events recorder) (d *control, rank *os.File) {
	d = newControl(3, events)
	rank, err := d.open()
	require.NoError(t, err)
	d.serve(d.read)
	t.Cleanup(func() { rank.Close(); d.close() })
	return d, rank
}

// hello sends Hello over the descriptor of a rank, as a program does, and returns the socket of the program.
func hello(t *testing.T, rank *os.File) *net.UnixConn {
	a, b, err := SocketPair()
	require.NoError(t, err)
	require.NoError(t, unix.Sendmsg(int(rank.Fd()), frame.Append(nil, rankwire.Hello{}), unix.UnixRights(b), nil, 0))
	unix.Close(b)
	f := os.NewFile(uintptr(a), "program")
	defer f.Close()
	c, err := net.FileConn(f)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c.(*net.UnixConn)
}

// TestEndlessWords requires that the reading from a program that never stops sending ends.
func TestEndlessWords(t *testing.T) {
	for _, joins := range []bool{false, true} {
		d, rank := entered(t, func(Event) {})
		write := rank.Write
		if joins {
			write = hello(t, rank).Write
		}
		over := make(chan struct{})
		go func() {
			defer close(over)
			words, err := frame.Append(nil, rankwire.Later{}), error(nil)
			for err == nil {
				_, err = write(words)
			}
		}()
		d.drain()
		d.close()
		<-over
	}
}

// turnedAway is what a program is told instead of a welcome, and that it is all.
func turnedAway(t *testing.T, program net.Conn) string {
	frames := rankwire.Vocabulary.NewReader(bufio.NewReader(program), frame.Agent)
	m, err := frames.Next()
	require.NoError(t, err)
	require.IsType(t, rankwire.Refused{}, m)
	_, err = frames.Next()
	require.Error(t, err)
	return m.(rankwire.Refused).Text
}

// Of a rank's programs one at a time is part of the job, and what an older one
// says does not count any more. A descriptor that somebody adds is closed.
func TestProgramsTakeTurns(t *testing.T) {
	events := make(chan Event, 100)
	d, rank := entered(t, func(ev Event) { events <- ev })
	first := hello(t, rank)
	require.Equal(t, core.RankFrame{Rank: 3, Msg: rankwire.Hello{}}, next(t, events))
	require.Contains(t, turnedAway(t, hello(t, rank)), "is not done")
	d.tell(rankwire.Wanted{}, -1)
	m, err := rankwire.Vocabulary.NewReader(bufio.NewReader(first), frame.Agent).Next()
	require.NoError(t, err)
	require.Equal(t, rankwire.Wanted{}, m, "the refused one has changed nothing")

	words := frame.Append(frame.Append(nil, rankwire.Finalize{}), rankwire.Later{})
	write(t, first, string(words)) // and the socket stays open
	require.Equal(t, core.RankFrame{Rank: 3, Msg: rankwire.Finalize{}}, next(t, events))
	second := hello(t, rank)
	require.Equal(t, core.RankFrame{Rank: 3, Msg: rankwire.Hello{}}, next(t, events))
	_, err = first.Read(make([]byte, 1))
	require.Error(t, err, "closed")
	require.NoError(t, second.Close())
	require.Contains(t, turnedAway(t, hello(t, rank)), "ended without Finalize")
	require.Empty(t, events)
}

// Words of PMI and programs that say Hello do not mix, whichever comes first; what
// is neither is named once and does not keep a program out.
func TestProgramsAndPMI(t *testing.T) {
	events := make(chan Event, 100)
	_, rank := entered(t, func(ev Event) { events <- ev })
	write(t, rank, "cmd=init\n")
	require.Equal(t, PMIBytes{3, []byte("cmd=init\n")}, next(t, events))
	require.Contains(t, turnedAway(t, hello(t, rank)), "by PMI")

	_, rank = entered(t, func(ev Event) { events <- ev })
	for range 2 {
		write(t, rank, "\x01\x02")
	}
	require.Contains(t, next(t, events).(Warning).Text, `wrote something else to descriptor 3, which is its agent's: "\x01\x02`)
	hello(t, rank)
	require.Equal(t, core.RankFrame{Rank: 3, Msg: rankwire.Hello{}}, next(t, events))
	write(t, rank, "cmd=init\n")
	require.Contains(t, next(t, events).(Warning).Text, "cannot join after one of the package ibrun")
	_, err := rank.Read(make([]byte, 1))
	require.Error(t, err, "nobody waits for an answer")
}

// A program that was let in can be refused after all, as those who come later are not, and PMI can be
// ended.
func TestRefusedAfterAll(t *testing.T) {
	events := make(chan Event, 100)
	d, rank := entered(t, func(ev Event) { events <- ev })
	d.refuse("nobody is there")
	program := hello(t, rank)
	require.Equal(t, core.RankFrame{Rank: 3, Msg: rankwire.Hello{}}, next(t, events))
	d.refuse("why")
	require.Equal(t, "why", turnedAway(t, program))
	hello(t, rank)
	require.Equal(t, core.RankFrame{Rank: 3, Msg: rankwire.Hello{}}, next(t, events))

	d, rank = entered(t, func(ev Event) { events <- ev })
	d.shut()
	_, err := rank.Read(make([]byte, 1))
	require.Error(t, err, "nobody waits for an answer")
	_, err = rank.WriteString("cmd=init\n")
	require.Error(t, err)
	d.close()
	d.shut()
	require.Empty(t, events)
}

// An answer that the other end takes at once costs no goroutine. What it does not take is sent later,
// in order, and so is what comes after that.
func TestAnswersAreSentAtOnce(t *testing.T) {
	d, rank := entered(t, func(Event) {})
	d.enqueue([]byte("now"))
	require.False(t, d.writer)
	b := make([]byte, 1<<16)
	n, err := rank.Read(b)
	require.NoError(t, err)
	require.Equal(t, "now", string(b[:n]))

	var want []byte
	for i := range 1 << 6 { // the socket takes a part of the first
		words := bytes.Repeat([]byte{byte(i)}, 1<<20>>i)
		want = append(want, words...)
		d.enqueue(words)
	}
	d.finish()
	got, err := io.ReadAll(rank)
	require.NoError(t, err)
	require.True(t, bytes.Equal(want, got))
}
