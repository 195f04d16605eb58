package native

import (
	"context"
	"crypto/ed25519"
	"encoding/pem"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"ibrun/internal/sshconfig"
)

// newKey makes a key; where is the file to put it in, if any.
func newKey(t *testing.T, where string) ssh.Signer {
	_, private, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	if where != "" {
		block, err := ssh.MarshalPrivateKey(private, "")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(where, pem.EncodeToMemory(block), 0o600))
	}
	signer, err := ssh.NewSignerFromKey(private)
	require.NoError(t, err)
	return signer
}

// server is an ssh server in this process that lets everybody in.
type server struct {
	listener net.Listener
	host     ssh.Signer
	config   ssh.ServerConfig
	ended    chan struct{} // closed at the test's end: what hangs until then
}

func newServer(t *testing.T) *server {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &server{listener: l, host: newKey(t, ""), ended: make(chan struct{})}
	s.config.PublicKeyCallback = func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) { return nil, nil }
	s.config.AddHostKey(s.host)
	t.Cleanup(func() {
		close(s.ended)
		l.Close()
	})
	return s
}

// login is what a user needs to get in.
func (s *server) login(t *testing.T) *sshconfig.Config {
	dir := t.TempDir()
	newKey(t, filepath.Join(dir, "key"))
	at := s.listener.Addr().(*net.TCPAddr)
	c := &sshconfig.Config{
		Alias: "h", Host: at.IP.String(), Port: uint16(at.Port), User: "u", Identities: []string{filepath.Join(dir,
			"key")}, IdentityGiven: true,
		KnownHosts: []string{filepath.Join(dir, "known")}, Strict: sshconfig.Accept, Network: "tcp", Attempts: 1,
		AliveCount: 3, MinRSABits: 1024,
	}
	return c
}

// accept serves each connection with f, from its first byte on.
func (s *server) accept(f func(c net.Conn)) {
	go func() {
		for {
			c, err := s.listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				f(c)
			}()
		}
	}()
}

// sessions serves each session with f, once a command was asked for.
func (s *server) sessions(f func(channel ssh.Channel, command string)) {
	s.accept(func(c net.Conn) {
		conn, channels, requests, err := ssh.NewServerConn(c, &s.config)
		if err != nil {
			return
		}
		defer conn.Close()
		go ssh.DiscardRequests(requests)
		for n := range channels {
			channel, requests, err := n.Accept()
			if err != nil {
				return
			}
			for r := range requests {
				if r.Type != "exec" {
					continue
				}
				_ = r.Reply(true, nil)
				go ssh.DiscardRequests(requests)
				f(channel, string(r.Payload[4:]))
				channel.Close()
			}
		}
	})
}

func try(cfg *sshconfig.Config, most time.Duration, stderr io.Writer) (*Session, []Phase, error) {
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	var phases []Phase
	s, err := Start(ctx, cfg, "command", stderr, func(p Phase) { phases = append(phases, p) })
	return s, phases, err
}
