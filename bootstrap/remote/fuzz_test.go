package remote

import (
	"bytes"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"ibrun/bootstrap/reaper"
)

// FuzzMeet is a far side that says anything before there are frames. It gets the
// install script once at most, what it prints is kept to a bound, and what follows
// the agent's line is left for the reader of frames.
func FuzzMeet(f *testing.F) {
	f.Add([]byte("motd\nx::ibrun-need:1 x86_64::\n::ibrun-need:1 x86_64::\n"))
	f.Add([]byte("::ibrun-agent:1 0000 x 1::\nframes"))
	f.Add([]byte("::ibrun-fail:1 no room ::\n::ibrun-other:1::\n"))
	text, err := installer(time.Hour, reaper.Role)
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, received []byte) {
		if bytes.Contains(received, []byte(sendMark)) {
			return // TestFailuresAreNamed has them; the binary is long
		}
		var sent bytes.Buffer
		s := &Session{Stdin: closer{&sent}, Stdout: bytes.NewReader(received), line: over{}}
		err := s.meet(Target{Host: "h"}, time.Hour, func(Phase) {})
		require.LessOrEqual(t, sent.Len(), len(text))
		require.LessOrEqual(t, len(s.noise), maxNoise+1)
		require.LessOrEqual(t, len(s.Tail()), tailSize)
		if err == nil {
			rest, _ := io.ReadAll(s.Stdout)
			require.True(t, bytes.HasSuffix(received, rest))
		}
	})
}

type closer struct{ io.Writer }

func (closer) Close() error { return nil }
