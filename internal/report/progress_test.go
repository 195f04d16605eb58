package report

import (
	"bytes"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// screen is a terminal that tells when it was written to.
type screen struct {
	mu    sync.Mutex
	text  bytes.Buffer
	wrote chan struct{}
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.text.Write(p)
	select {
	case s.wrote <- struct{}{}:
	default:
	}
	return n, err
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func TestProgressMakesWayForOutput(t *testing.T) {
	s := &screen{wrote: make(chan struct{}, 1)}
	p := NewProgress(s, func() bool { return false }, 64, 0)
	p.set(3)
	<-s.wrote
	require.Eventually(t, func() bool {
		return bytes.HasSuffix([]byte(s.String()), []byte("ibrun: launching, 3 of 64 nodes settled (0 s)\x1b[K"))
	}, 5*time.Second, time.Millisecond)
	_, err := p.Under(s).Write([]byte("output\n"))
	require.NoError(t, err)
	require.Contains(t, s.String(), "\x1b[K\r\x1b[Koutput\n")
	p.end()
	after := s.String()
	require.True(t, bytes.HasSuffix([]byte(after), []byte("\r\x1b[K")) ||
		bytes.HasSuffix([]byte(after), []byte("output\n")))
	p.draw()
	require.Equal(t, after, s.String(), "it does not come back")
}

// A launch that is over in time never shows a line, nor an escape code.
func TestProgressOfAQuickLaunch(t *testing.T) {
	s := &screen{wrote: make(chan struct{}, 1)}
	p := NewProgress(s, func() bool { return false }, 64, time.Hour)
	_, _ = p.Under(s).Write([]byte("output\n"))
	p.end()
	require.Equal(t, "output\n", s.String())
}
