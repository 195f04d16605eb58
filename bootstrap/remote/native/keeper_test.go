package native

import (
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
)

// A server that answers keeps its session however long it has nothing else to
// say; one that does not loses it.
func TestKeeper(t *testing.T) {
	for _, answers := range []bool{true, false} {
		s := newServer(t)
		var asked atomic.Int32
		s.accept(func(c net.Conn) {
			_, channels, requests, err := ssh.NewServerConn(c, &s.config)
			if err != nil {
				return
			}
			go func() {
				for n := range channels {
					_, requests, _ := n.Accept()
					go func() {
						for r := range requests {
							_ = r.Reply(true, nil)
						}
					}()
				}
			}()
			for r := range requests {
				asked.Add(1)
				if answers {
					_ = r.Reply(false, nil)
				}
			}
		})
		n, _, err := try(s.login(t), 5*time.Second, io.Discard)
		require.NoError(t, err)
		most := 2
		if answers {
			most = 200 // on a machine however busy
		}
		k := keep(n.conn, n.client, most, 20*time.Millisecond)
		if answers {
			require.Eventually(t, func() bool { return asked.Load() > 6 }, 10*time.Second, 5*time.Millisecond)
			select {
			case <-n.Done():
				t.Fatal("it is over", n.End())
			default:
			}
			k.stop()
			n.Kill()
		}
		<-n.Done()
		require.Error(t, n.End().Lost)
		if !answers {
			require.LessOrEqual(t, asked.Load(), int32(2))
		}
	}
}
