package native

import (
	"context"
	"crypto/ed25519"
	"encoding/pem"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
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
	host   ssh.Signer
	config ssh.ServerConfig
	serve  func(c net.Conn) // each connection, from its first byte on
	ended  chan struct{}    // closed at the test's end: what hangs until then
}

func newServer(t *testing.T) *server {
	s := &server{host: newKey(t, ""), ended: make(chan struct{})}
	s.config.PublicKeyCallback = func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) { return nil, nil }
	s.config.AddHostKey(s.host)
	t.Cleanup(func() { close(s.ended) })
	return s
}

// login is what a user needs to get in.
func (s *server) login(t *testing.T) *Config {
	dir := t.TempDir()
	newKey(t, filepath.Join(dir, "key"))
	return &Config{
		Alias: "h", Host: "h", Port: 22, User: "u", Identities: []string{filepath.Join(dir, "key")}, IdentityGiven: true,
		KnownHosts: []string{filepath.Join(dir, "known")}, Strict: Accept, Network: "tcp", Attempts: 1,
		AliveCount: 3, MinRSABits: 1024,
	}
}

// dial connects to the server in memory.
func (s *server) dial(context.Context, time.Time) (net.Conn, error) {
	ours, theirs := net.Pipe()
	go func() {
		c := buffer(theirs)
		defer c.Close()
		s.serve(c)
	}()
	return buffer(ours), nil
}

// buffered is an end of a pipe whose Write does not wait for the other end. Both sides of ssh begin with
// a Write.
type buffered struct {
	net.Conn
	mu     sync.Mutex
	more   *sync.Cond
	queue  []byte
	closed bool
}

func buffer(c net.Conn) net.Conn {
	b := &buffered{Conn: c}
	b.more = sync.NewCond(&b.mu)
	go b.pump()
	return b
}

func (b *buffered) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0, net.ErrClosed
	}
	b.queue = append(b.queue, p...)
	b.more.Signal()
	return len(p), nil
}

// pump passes on what was written, and after Close what is left of it.
func (b *buffered) pump() {
	defer b.Conn.Close()
	for {
		b.mu.Lock()
		for len(b.queue) == 0 && !b.closed {
			b.more.Wait()
		}
		p := b.queue
		b.queue = nil
		b.mu.Unlock()
		if len(p) == 0 {
			return
		}
		if _, err := b.Conn.Write(p); err != nil {
			b.Close()
			return
		}
	}
}

func (b *buffered) Read(p []byte) (int, error) {
	n, err := b.Conn.Read(p)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil && b.closed {
		err = net.ErrClosed
	}
	return n, err
}

func (b *buffered) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.more.Signal()
	return b.SetReadDeadline(time.Unix(1, 0)) // ends Read
}

// accept serves each connection with f, from its first byte on.
func (s *server) accept(f func(c net.Conn)) { s.serve = f }

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

// try logs in and runs a command, within a time.
func (s *server) try(cfg *Config, most time.Duration, stderr io.Writer) (*Session, []Phase, error) {
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	var phases []Phase
	l := &login{cfg: cfg, reached: func(p Phase) { phases = append(phases, p) }, every: aliveInterval, dialer: s.dial}
	l.banner = func(text string) { _, _ = io.WriteString(stderr, text) }
	n, err := l.start(ctx, "command", stderr)
	return n, phases, err
}
