package native

import (
	"bytes"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"

	"ibrun/internal/skip"
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
			t.Parallel()
			s := newServer(t)
			c.hang(s)
			_, phases, err := try(s.login(t), 400*time.Millisecond, io.Discard)
			var e *Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, c.phase, e.Phase, err)
			require.Equal(t, c.phase, phases[len(phases)-1])
			require.NotEmpty(t, e.Hint)
			require.False(t, e.Early)
			if _, silence, said := strings.Cut(e.Cause, "no answer from it in "); said {
				took, err := time.ParseDuration(silence)
				require.NoError(t, err)
				require.Less(t, took, 10*time.Second, "the limit of this session, not what is usual")
			} else {
				require.NotEqual(t, Version, c.phase, e.Cause)
			}
		})
	}
}

// The wall clock may be set while a session runs: a connection's age is of the monotonic one.
func TestAgeIsMonotonic(t *testing.T) {
	s := newServer(t)
	s.accept(func(net.Conn) { <-s.ended })
	c, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(s.login(t).Port))))
	require.NoError(t, err)
	defer c.Close()
	w, err := newConn(c.(*net.TCPConn), nil)
	require.NoError(t, err)
	require.NotEqual(t, w.began.Round(0), w.began, "without its monotonic reading it is another time (package time)")
}

// A host that does not even answer: its queue of connections is full.
func TestHangsInConnect(t *testing.T) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	require.NoError(t, err)
	f := os.NewFile(uintptr(fd), "full")
	defer f.Close()
	require.NoError(t, syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	require.NoError(t, syscall.Listen(fd, 0))
	at, err := syscall.Getsockname(fd)
	require.NoError(t, err)
	cfg := newServer(t).login(t)
	cfg.Port = uint16(at.(*syscall.SockaddrInet4).Port)
	filler, err := net.Dial("tcp", (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: int(cfg.Port)}).String())
	require.NoError(t, err)
	defer filler.Close()
	_, _, err = try(cfg, 300*time.Millisecond, io.Discard)
	var e *Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, Connect, e.Phase)
	require.Contains(t, e.Cause, "timed out")
}

// Only what comes before authentication may be tried again.
func TestTurnedAway(t *testing.T) {
	for name, c := range map[string]struct {
		early bool
		do    func(s *server)
	}{
		"at once": {true, func(s *server) { s.accept(func(net.Conn) {}) }},
		"after the version": {true, func(s *server) {
			s.accept(func(c net.Conn) {
				_, _ = io.WriteString(c,
					"SSH-2.0-x\r\n")
			})
		}},
		"with a key": {false, func(s *server) {
			s.accept(func(c net.Conn) {
				s.config.PublicKeyCallback = func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions,
					error) {
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
			_, _, err := try(s.login(t), 5*time.Second, io.Discard)
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
	n, phases, err := try(s.login(t), 5*time.Second, &stderr)
	require.NoError(t, err)
	require.Equal(t, []Phase{Connect, Version, KeyExchange, Authenticate, Open, Exec}, phases)
	require.NotEqual(t, "0", n.Inode())
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
	n, _, err := try(s.login(t), 5*time.Second, io.Discard)
	require.NoError(t, err)
	<-n.Done()
	require.Equal(t, End{Signal: "KILL"}, n.End())
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
		n, _, err := try(s.login(t), 5*time.Second, io.Discard)
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

// What is not acknowledged is sent again each two seconds, where the kernel can: a cut of almost
// five seconds is over for both sides two seconds later.
func TestResendsSoon(t *testing.T) {
	probe, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(probe)
	if _, err := unix.GetsockoptInt(probe, unix.IPPROTO_TCP, unix.TCP_RTO_MAX_MS); err != nil {
		skip.Because(t, "Linux before 6.15 has no bound for the time between repetitions of TCP")
	}
	s := newServer(t)
	l := &login{cfg: s.login(t)}
	c, err := l.dial(t.Context(), time.Now().Add(time.Minute))
	require.NoError(t, err)
	defer c.Close()
	raw, err := c.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) {
		got, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_RTO_MAX_MS)
		require.NoError(t, err)
		require.Equal(t, 2000, got)
	}))
}
