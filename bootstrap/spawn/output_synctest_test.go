package spawn

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/internal/job"
)

// inTime plays what a rank prints in virtual time. It requires what comes of it, and when.
func inTime(t *testing.T, out job.Output, prompts bool, print func(r *reader, to net.Conn), want string,
	after time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		from, to := net.Pipe()
		r, events := reading(from, out, prompts)
		began := time.Now()
		go print(r, to)
		require.Equal(t, chunk(want), <-events)
		require.InDelta(t, after, time.Since(began), float64(lineLast))
		r.resume()
		synctest.Wait()
		to.Close()
		<-r.ended
	})
}

func write(t *testing.T, to io.Writer, text string) {
	_, err := to.Write([]byte(text))
	require.NoError(t, err)
}

// A prompt without an end of line comes a moment later all the same, and with --unbuffered nothing
// waits.
func TestOutputOfPrompts(t *testing.T) {
	for unbuffered, after := range map[bool]time.Duration{false: lineGap, true: 0} {
		inTime(t, job.Output{Unbuffered: unbuffered}, !unbuffered, func(_ *reader, to net.Conn) {
			write(t, to, "name? ")
		}, "name? ", after)
	}
}

// A rank that reads nothing has no prompts: what it has not ended waits longer, but not for ever,
// however often a little more comes.
func TestOutputWithoutPrompts(t *testing.T) {
	require.False(t, (*feeder)(nil).more())
	inTime(t, job.Output{}, false, func(_ *reader, to net.Conn) {
		for range 8 {
			write(t, to, ".")
			time.Sleep(lineMost / 8)
		}
	}, "........", lineMost)
}

// A rank whose input ends while the beginning of a line waits prints no prompt: the rest belongs to
// the line, as with all other ranks.
func TestOutputWhenInputEnds(t *testing.T) {
	inTime(t, job.Output{}, true, func(r *reader, to net.Conn) {
		write(t, to, "be")
		time.Sleep(lineGap / 2)
		r.feed.end()
		time.Sleep(2 * lineGap)
		write(t, to, "ginning\n")
	}, "beginning\n", lineGap/2+2*lineGap)
}

// What is left of a line at the end comes at once.
func TestOutputEndsWithinALine(t *testing.T) {
	inTime(t, job.Output{}, false, func(_ *reader, to net.Conn) {
		write(t, to, "rest")
		to.Close()
	}, "rest", 0)
}
