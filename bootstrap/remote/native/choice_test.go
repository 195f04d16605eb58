package native

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
)

func TestPick(t *testing.T) {
	for preferred, want := range map[string]string{
		"":                  strings.Join(kexes.usual, ","),
		"curve25519-sha256": "curve25519-sha256",
		"ecdh-sha2-nistp256,sntrup761x25519-sha512@openssh.com," +
			"curve25519-sha256": "ecdh-sha2-nistp256,curve25519-sha256",
		"-mlkem*,ecdh*,diffie*":          "curve25519-sha256",
		"+diffie-hellman-group14-sha1":   strings.Join(kexes.usual, ",") + ",diffie-hellman-group14-sha1",
		"+diffie-hellman-group18-sha512": strings.Join(kexes.usual, ","),
		"^ecdh-sha2-nistp521": "ecdh-sha2-nistp521," + strings.ReplaceAll(strings.Join(kexes.usual, ","),
			",ecdh-sha2-nistp521", ""),
	} {
		got, err := kexes.pick(preferred)
		require.NoError(t, err, preferred)
		require.Equal(t, want, strings.Join(got, ","), preferred)
	}
	for _, preferred := range []string{"sntrup761x25519-sha512@openssh.com,curve25519-sha256",
		"^diffie-hellman-group18-sha512", "curve25519-sha256,new-thing", "+new-thing", "ecdh*"} {
		_, err := kexes.pick(preferred)
		var u *Unfit
		require.ErrorAs(t, err, &u, preferred)
	}
	require.Equal(t, "ssh-rsa", plainType(ssh.CertAlgoRSASHA512v01))
	require.Equal(t, "sk-ssh-ed25519@openssh.com", plainType(ssh.CertAlgoSKED25519v01))
}

// A key that is learnt begins a line of its own, even where the last one has no
// end, and is known from then on.
func TestLearn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "known")
	require.NoError(t, os.WriteFile(file, []byte("# by hand"), 0o600))
	key := newKey(t, "").PublicKey()
	for _, hash := range []bool{false, true} {
		cfg := &Config{Host: "n", Port: 24, KnownHosts: []string{file}, Strict: Accept,
			HashHosts: hash}
		if hash {
			cfg.Port = 25
		}
		h, err := newHostCheck(cfg)
		require.NoError(t, err)
		require.NoError(t, h.check("", nil, key))
		cfg.Strict = Refuse
		h, err = newHostCheck(cfg)
		require.NoError(t, err)
		require.NoError(t, h.check("", nil, key))
		require.Error(t, h.check("", nil, newKey(t, "").PublicKey()))
	}
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	lines := strings.Split(string(text), "\n")
	require.Len(t, lines, 4)
	require.Equal(t, "# by hand", lines[0])
	require.True(t, strings.HasPrefix(lines[1], "[n]:24 ssh-ed25519 "), lines[1])
	require.True(t, strings.HasPrefix(lines[2], "|1|"), lines[2])
}
