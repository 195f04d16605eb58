package native

import (
	"bytes"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"

	"ibrun/test/waitfor"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
)

// Only what comes before authentication may be tried again.
func TestTurnedAway(t *testing.T) {
	for name, c := range map[string]struct {
		early bool
		do    func(s *server)
	}{
		"at once": {true, func(s *server) { s.accept(func(net.Conn) {}) }},
		"after the version": {true, func(s *server) {
			s.accept(func(c net.Conn) { _, _ = io.WriteString(c, "SSH-2.0-x\r\n") })
		}},
		"with a key": {false, func(s *server) {
			s.accept(func(c net.Conn) {
				s.config.PublicKeyCallback = func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) {
					c.Close()
					return nil, io.EOF
				}
				_, _, _, _ = ssh.NewServerConn(c, &s.config)
			})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			c.do(s)
			_, _, err := s.try(s.login(t), waitfor.Deadline, io.Discard)
			var e *Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, c.early, e.Early, err)
		})
	}
}

// echoes sends all of something and wants it back.
func echoes(t *testing.T, n *Session, sent []byte) {
	var wait sync.WaitGroup
	wait.Go(func() {
		_, _ = n.Stdin.Write(sent)
		_ = n.Stdin.Close()
	})
	got, err := io.ReadAll(n.Stdout)
	require.NoError(t, err)
	wait.Wait()
	require.True(t, bytes.Equal(sent, got), "%d of %d bytes", len(got), len(sent))
}

func TestSession(t *testing.T) {
	s := newServer(t)
	s.config.BannerCallback = func(ssh.ConnMetadata) string { return "be good\n" }
	s.sessions(func(ch ssh.Channel, command string) {
		_, _ = io.WriteString(ch.Stderr(), "warning: "+command)
		_, _ = io.Copy(ch, ch)
		_, _ = ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Code uint32 }{137}))
	})
	var stderr bytes.Buffer
	n, phases, err := s.try(s.login(t), waitfor.Deadline, &stderr)
	require.NoError(t, err)
	require.Equal(t, []Phase{Connect, Version, KeyExchange, Authenticate, Open, Exec}, phases)
	echoes(t, n, bytes.Repeat([]byte("0123456789abcdef"), 1<<16))
	<-n.Done()
	require.Equal(t, End{Code: 137}, n.End())
	require.Equal(t, "be good\nwarning: command", stderr.String())
}

func TestEndBySignal(t *testing.T) {
	s := newServer(t)
	s.sessions(func(ch ssh.Channel, _ string) {
		_, _ = ch.SendRequest("exit-signal", false, ssh.Marshal(struct {
			Name        string
			Core        bool
			Error, Lang string
		}{"KILL", false, "", ""}))
	})
	n, _, err := s.try(s.login(t), waitfor.Deadline, io.Discard)
	require.NoError(t, err)
	<-n.Done()
	require.Equal(t, End{Signal: syscall.SIGKILL}, n.End())
}

// Kill ends it on both sides at once; so does the loss of the connection.
func TestDeath(t *testing.T) {
	for _, byServer := range []bool{false, true} {
		s := newServer(t)
		gone, lose := make(chan struct{}), make(chan struct{})
		s.accept(func(c net.Conn) {
			conn, channels, requests, err := ssh.NewServerConn(c, &s.config)
			if err != nil {
				return
			}
			go ssh.DiscardRequests(requests)
			go func() {
				<-lose
				c.Close()
			}()
			for n := range channels {
				channel, requests, _ := n.Accept()
				go func() {
					for r := range requests {
						_ = r.Reply(true, nil)
					}
				}()
				_, _ = io.Copy(io.Discard, channel)
			}
			_ = conn.Wait()
			close(gone)
		})
		n, _, err := s.try(s.login(t), waitfor.Deadline, io.Discard)
		require.NoError(t, err)
		if byServer {
			close(lose)
		} else {
			n.Kill()
		}
		_, err = io.ReadAll(n.Stdout)
		require.NoError(t, err)
		<-n.Done()
		require.Error(t, n.End().Lost)
		<-gone
	}
}
