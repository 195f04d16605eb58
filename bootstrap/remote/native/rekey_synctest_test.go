package native

import (
	"bytes"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// The limit of a launch is no limit of the session: keys that are exchanged
// during the launch, on a link that is idle or busy, do not bring it back.
func TestRekeyKeepsNoDeadline(t *testing.T) {
	const launch = 2 * time.Second
	for _, busy := range []bool{false, true} {
		t.Run(map[bool]string{false: "idle", true: "busy"}[busy], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, made := newRekeyServer(t, 1<<10)
				began := time.Now()
				n, _, err := s.try(s.login(t), launch, io.Discard)
				require.NoError(t, err)
				exchange := func() {
					sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<8)
					var wait sync.WaitGroup
					wait.Go(func() { _, _ = n.Stdin.Write(sent) })
					got := make([]byte, len(sent))
					_, err := io.ReadFull(n.Stdout, got)
					require.NoError(t, err)
					require.Equal(t, sent, got)
					wait.Wait()
				}
				for made.Load() < 3 || busy && time.Since(began) < 2*launch {
					exchange()
					time.Sleep(launch / 10)
				}
				time.Sleep(time.Until(began.Add(2 * launch))) // the launch's limit passes: nothing may happen then
				select {
				case <-n.Done():
					t.Fatal("it is over", n.End())
				default:
				}
				exchange()
				require.NoError(t, n.Stdin.Close())
				<-n.Done()
			})
		})
	}
}
