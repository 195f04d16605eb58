package native

import (
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"ibrun/test/waitfor"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
)

// answering is a server that counts keepalives, and answers them or does not.
func answering(t *testing.T, answers bool) (*server, *atomic.Int32) {
	s, asked := newServer(t), new(atomic.Int32)
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
				time.Sleep(time.Millisecond) // later than the question
				_ = r.Reply(false, nil)
			}
		}
	})
	return s, asked
}

// A server that answers keeps its session however long it has nothing else to say.
func TestAnsweredKeepalives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, asked := answering(t, true)
		n, _, err := s.try(s.login(t), waitfor.Deadline, io.Discard)
		require.NoError(t, err)
		time.Sleep(100*(aliveInterval+time.Millisecond) + time.Second)
		require.Equal(t, int32(100), asked.Load())
		select {
		case <-n.Done():
			t.Fatal(n.End())
		default:
		}
		n.Kill()
		<-n.Done()
	})
}

// One that does not answer loses it, and that is said.
func TestKeepalivesWithoutAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, asked := answering(t, false)
		cfg := s.login(t)
		cfg.AliveCount = 1 // a second request would wait for a mutex of the library, which stops virtual time
		n, _, err := s.try(cfg, waitfor.Deadline, io.Discard)
		require.NoError(t, err)
		began := time.Now()
		<-n.Done()
		require.Equal(t, 2*aliveInterval, time.Since(began))
		require.ErrorContains(t, n.End().Lost, "its sshd has answered nothing")
		require.Equal(t, int32(1), asked.Load())
	})
}
