package agent

import (
	"bufio"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/core"
	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
	"ibrun/internal/job"
	"ibrun/test/waitfor"
)

// frames returns the messages that it reads from a stream.
func frames(t *testing.T, from io.Reader) (list []frame.Message) {
	for in := wire.Vocabulary.NewReader(from, frame.Parent|frame.Child); ; {
		m, err := in.Next()
		if errors.Is(err, io.EOF) {
			return list
		}
		require.NoError(t, err)
		list = append(list, m)
	}
}

// What is queued leaves in this order: control first, then output as it came,
// then Exit, which nothing of the subtree may follow.
func TestControlOvertakesOutput(t *testing.T) {
	l := newLink()
	first, second := wire.Output{Rank: 1, Stream: 1, Data: []byte("a")},
		wire.Output{Rank: 2, Stream: 2, Data: []byte("b")}
	exit := wire.Exit{Truncated: 1}
	for _, m := range []frame.Message{first, wire.Grant{N: 1}, second, wire.Heartbeat{}, exit, wire.StdinRoom{N: 2}} {
		l.send(m)
	}
	r, w := io.Pipe()
	l.finish()
	go l.write(w)
	require.Equal(t, []frame.Message{wire.Grant{N: 1}, wire.Heartbeat{}, wire.StdinRoom{N: 2}, first, second, exit},
		frames(t, r))
	<-l.written
}

// Output is written a batch at a time, so that control that comes meanwhile
// waits for one batch at most.
func TestControlWaitsForOneBatch(t *testing.T) {
	l := newLink()
	const chunks, size = 20, batch / 4
	for range chunks {
		l.send(wire.Output{Stream: 1, Data: make([]byte, size)})
	}
	buf, end := l.take(nil)
	require.False(t, end)
	require.GreaterOrEqual(t, len(buf), batch)
	require.Less(t, len(buf), batch+size+16)
	l.send(wire.Signal{Number: 2})
	l.finish()
	buf, end = l.take(buf[:0])
	require.False(t, end, "there is output left")
	require.Equal(t, frame.Append(nil, wire.Signal{Number: 2}), buf[:len(frame.Append(nil, wire.Signal{Number: 2}))])
	taken := 2
	for ; !end; taken++ {
		buf, end = l.take(buf[:0])
		require.NotEmpty(t, buf)
	}
	require.Equal(t, chunks/4, taken)
	buf, end = l.take(buf[:0])
	require.True(t, end && len(buf) == 0)
}

// The reading side posts frames as they come, and says why it ends: at the end
// of the stream, within a frame, or at what is no frame.
func TestReadSaysWhyItEnds(t *testing.T) {
	heartbeat := frame.Append(nil, wire.Heartbeat{})
	for _, c := range []struct {
		then []byte
		want error
	}{
		{nil, io.EOF},
		{heartbeat[:len(heartbeat)-1], io.ErrUnexpectedEOF},
		{[]byte{0, 0, 0, 1, 0xff}, nil},
	} {
		r, w := io.Pipe()
		go func() {
			_, _ = w.Write(append(frame.Append(nil, wire.StdinRoom{N: 3}), c.then...))
			w.Close()
		}()
		var posted []core.Event
		err := read(r, 4, false, recorder(func(ev core.Event) { posted = append(posted, ev) }))
		require.Error(t, err)
		if c.want != nil {
			require.ErrorIs(t, err, c.want)
		} else {
			require.NotErrorIs(t, err, io.EOF)
		}
		require.Equal(t, []core.Event{core.Frame{From: 4, Msg: wire.StdinRoom{N: 3}}}, posted)
	}
}

// TestHeartbeatsDoNotPileUp requires that heartbeats are not queued more than once.
func TestHeartbeatsDoNotPileUp(t *testing.T) {
	l := newLink()
	for range 1000 {
		l.send(wire.Heartbeat{})
	}
	l.send(wire.Signal{Number: 18})
	l.send(wire.Heartbeat{})
	require.Equal(t, []frame.Message{wire.Heartbeat{}, wire.Signal{Number: 18}, wire.Heartbeat{}}, l.control)
}

// Behind a starter that holds what it carries until a line ends, each write ends with a newline, so
// nothing waits; a reader that knows of it takes the same messages.
func TestLinkThroughLines(t *testing.T) {
	l := newLink()
	l.lines.Store(true)
	r, w := io.Pipe()
	go l.write(w)
	line, to := io.Pipe()
	go func() { // passes on whole lines only
		held := bufio.NewReader(r)
		for {
			text, err := held.ReadBytes('\n')
			if err != nil {
				to.CloseWithError(err) // and drops the rest
				return
			}
			_, _ = to.Write(text)
		}
	}()
	posted := make(chan core.Event)
	go func() {
		_ = read(line, 4, true, recorder(func(ev core.Event) { posted <- ev }))
		close(posted)
	}()
	for n := range uint32(3) { // the next one is sent when the one before has come
		l.send(wire.Output{Rank: job.Slot(n), Stream: 1, Data: []byte("no newline")})
		want := core.Frame{From: 4, Msg: wire.Output{Rank: job.Slot(n), Stream: 1, Data: []byte("no newline")}}
		require.Equal(t, want, waitfor.Receive(t, posted))
	}
	l.finish()
	_, more := <-posted
	require.False(t, more)
}
