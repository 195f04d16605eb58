package agent

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/wire"
	"ibrun/bootstrap/wire/frame"
)

// A neighbour that reads nothing: sending never waits, and drain waits as long
// as it was told to, to the moment.
func TestDrainWithoutAReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink()
		r, w := io.Pipe()
		go l.write(w)
		for range 1000 {
			l.send(wire.Output{Stream: 1, Data: make([]byte, 1000)})
		}
		began := time.Now()
		l.drain(lastWords)
		require.Equal(t, lastWords, time.Since(began))
		r.Close() // the session is killed
		<-l.written
		began = time.Now()
		l.drain(lastWords)
		require.Zero(t, time.Since(began), "the stream has failed: there is nothing to wait for")
	})
}

// When all is taken, drain does not wait, and the stream ends.
func TestDrainWithAReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink()
		r, w := io.Pipe()
		go l.write(w)
		l.send(wire.Heartbeat{})
		got := make(chan []frame.Message, 1)
		go func() { got <- frames(t, r) }()
		began := time.Now()
		l.drain(lastWords)
		require.Zero(t, time.Since(began))
		require.Equal(t, []frame.Message{wire.Heartbeat{}}, <-got)
	})
}
