package native

import (
	"crypto/rand"
	"crypto/sha256"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"ibrun/test/waitfor"
)

// countingKey is a host key that counts its signatures: one for each key exchange.
type countingKey struct {
	ssh.Signer
	made *atomic.Int32
}

func (k countingKey) Sign(r io.Reader, data []byte) (*ssh.Signature, error) {
	k.made.Add(1)
	return k.Signer.Sign(r, data)
}

// newRekeyServer is a server that echoes, and exchanges keys again after so many
// bytes, 0 for never. The counter has the exchanges.
func newRekeyServer(t *testing.T, threshold uint64) (*server, *atomic.Int32) {
	s, made := newServer(t), new(atomic.Int32)
	s.config = ssh.ServerConfig{PublicKeyCallback: s.config.PublicKeyCallback}
	s.config.RekeyThreshold = threshold
	s.config.AddHostKey(countingKey{s.host, made})
	s.sessions(func(ch ssh.Channel, _ string) { _, _ = io.Copy(ch, ch) })
	return s, made
}

// Many megabytes in both directions at once while keys are exchanged anew, by
// one side, by the other, and by both.
func TestRekeyUnderLoad(t *testing.T) {
	for name, threshold := range map[string]struct{ client, server uint64 }{
		"client": {1 << 15, 0}, "server": {0, 1 << 15}, "both": {1 << 15, 1 << 15},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, made := newRekeyServer(t, threshold.server)
			cfg := s.login(t)
			cfg.RekeyBytes = threshold.client
			n, _, err := s.try(cfg, waitfor.Deadline, io.Discard)
			require.NoError(t, err)
			up, down := sha256.New(), sha256.New()
			var wait sync.WaitGroup
			wait.Go(func() {
				_, _ = io.Copy(io.MultiWriter(up, n.Stdin), untilCount{made, 20})
				_ = n.Stdin.Close()
			})
			_, err = io.Copy(down, n.Stdout)
			require.NoError(t, err)
			wait.Wait()
			require.GreaterOrEqual(t, made.Load(), int32(20))
			require.Equal(t, up.Sum(nil), down.Sum(nil))
		})
	}
}

// untilCount is random bytes until a counter has got so far.
type untilCount struct {
	counter *atomic.Int32
	goal    int32
}

func (u untilCount) Read(p []byte) (int, error) {
	if u.counter.Load() >= u.goal {
		return 0, io.EOF
	}
	return rand.Read(p)
}

// A key that was accepted stays accepted while the connection lasts: it is
// written down once, and the user may edit known hosts meanwhile.
func TestRekeyTrustsTheSameKey(t *testing.T) {
	s, made := newRekeyServer(t, 1<<14)
	cfg := s.login(t)
	n, _, err := s.try(cfg, waitfor.Deadline, io.Discard)
	require.NoError(t, err)
	text, err := os.ReadFile(cfg.KnownHosts[0])
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(text), "ssh-ed25519"))
	require.NoError(t, os.WriteFile(cfg.KnownHosts[0], nil, 0o600))
	go func() {
		_, _ = io.Copy(n.Stdin, untilCount{made, 4})
		_ = n.Stdin.Close()
	}()
	_, err = io.Copy(io.Discard, n.Stdout)
	require.NoError(t, err)
	require.GreaterOrEqual(t, made.Load(), int32(4))
	text, err = os.ReadFile(cfg.KnownHosts[0])
	require.NoError(t, err)
	require.Empty(t, string(text))
}

// Another key in the same connection is judged as at its beginning.
func TestRekeyWithAnotherKey(t *testing.T) {
	right, wrong := newKey(t, "").PublicKey(), newKey(t, "").PublicKey()
	file := filepath.Join(t.TempDir(), "known")
	line := "n " + strings.TrimSpace(string(ssh.MarshalAuthorizedKey(right))) + "\n"
	require.NoError(t, os.WriteFile(file, []byte(line), 0o600))
	h, err := newHostCheck(&Config{Host: "n", Port: 22, KnownHosts: []string{file}, Strict: Refuse})
	require.NoError(t, err)
	require.NoError(t, h.check("", nil, right))
	require.Error(t, h.check("", nil, wrong))
	require.NoError(t, h.check("", nil, right))
}
