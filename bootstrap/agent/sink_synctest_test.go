package agent

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/core"
)

func TestSinkTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out, _, _ := written(Style{Label: true, Timestamp: true}, write(3, 1, "a\n"))
		require.Equal(t, time.Now().Format("2006-01-02 15:04:05.000")+" [3] a\n", out)
	})
}

// Nobody waits for a consumer that takes nothing: putting does not, and closing
// does for a moment.
func TestSinkWithoutAReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		s := NewSink(w, io.Discard, Style{})
		go s.run(recorder(func(core.Event) {}))
		for range 100 {
			s.put(write(0, 1, "x"))
		}
		began := time.Now()
		s.close()
		require.Equal(t, sinkPatience, time.Since(began))
		r.Close()
		<-s.ended
	})
}
