package native

import (
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
)

// A server that hangs is named by the step in which it does.
func TestHangs(t *testing.T) {
	for _, c := range []struct {
		phase Phase
		hang  func(s *server)
	}{
		{Version, func(s *server) { s.accept(func(net.Conn) { <-s.ended }) }},
		{KeyExchange, func(s *server) {
			s.accept(func(c net.Conn) {
				_, _ = io.WriteString(c, "SSH-2.0-tarpit\r\n")
				<-s.ended
			})
		}},
		{Authenticate, func(s *server) {
			s.config.PublicKeyCallback = func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) {
				<-s.ended
				return nil, nil
			}
			s.sessions(nil)
		}},
		{Open, func(s *server) {
			s.accept(func(c net.Conn) {
				if _, _, requests, err := ssh.NewServerConn(c, &s.config); err == nil {
					ssh.DiscardRequests(requests)
				}
			})
		}},
		{Exec, func(s *server) {
			s.accept(func(c net.Conn) {
				_, channels, requests, err := ssh.NewServerConn(c, &s.config)
				if err != nil {
					return
				}
				go ssh.DiscardRequests(requests)
				for n := range channels {
					_, _, _ = n.Accept()
				}
			})
		}},
	} {
		t.Run(string(c.phase), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t)
				c.hang(s)
				_, phases, err := s.try(s.login(t), 4*time.Second, io.Discard)
				var e *Error
				require.ErrorAs(t, err, &e)
				require.Equal(t, c.phase, e.Phase, err)
				require.Equal(t, c.phase, phases[len(phases)-1])
				require.NotEmpty(t, e.Hint)
				require.False(t, e.Early)
				if _, silence, said := strings.Cut(e.Cause, "no answer from it in "); said {
					require.Equal(t, "4s", silence, "the limit of this session, not what is usual")
				} else {
					require.NotEqual(t, Version, c.phase, e.Cause)
				}
			})
		})
	}
}
