package report

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestProgressMakesWayForOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s bytes.Buffer
		p := NewProgress(&s, func() bool { return false }, 64, time.Second)
		shown := func() string {
			p.mu.Lock()
			defer p.mu.Unlock()
			return s.String()
		}
		p.set(3)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, "\ribrun: launching, 3 of 64 nodes settled (1 s)\x1b[K", shown())
		_, err := p.Under(&s).Write([]byte("output\n"))
		require.NoError(t, err)
		require.True(t, strings.HasSuffix(shown(), "\x1b[K\r\x1b[Koutput\n"))
		time.Sleep(progressEvery)
		synctest.Wait()
		require.Contains(t, shown(), "output\n\ribrun: launching, 3 of 64 nodes")
		p.end()
		after := shown()
		require.True(t, strings.HasSuffix(after, "\r\x1b[K"))
		time.Sleep(time.Hour)
		require.Equal(t, after, shown(), "it does not come back")
	})
}

// A launch that is over in time never shows a line, nor an escape code.
func TestProgressOfAQuickLaunch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s bytes.Buffer
		p := NewProgress(&s, func() bool { return false }, 64, time.Hour)
		_, _ = p.Under(&s).Write([]byte("output\n"))
		p.end()
		time.Sleep(2 * time.Hour)
		require.Equal(t, "output\n", s.String())
	})
}
