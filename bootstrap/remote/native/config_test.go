package native

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// place is a home directory with configuration files.
func place(t *testing.T, user, system string) System {
	home := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(home, ".ssh"), 0o700))
	s := System{
		Home: home, User: "me", UID: os.Getuid(), Host: "front.site.org", UserFile: filepath.Join(home, ".ssh/config"),
		SystemFile: filepath.Join(home, "system"), Getenv: func(n string) string {
			return map[string]string{"X": "x",
				"SSH_AUTH_SOCK": "/sock"}[n]
		},
	}
	require.NoError(t, os.WriteFile(s.UserFile, []byte(user), 0o600))
	require.NoError(t, os.WriteFile(s.SystemFile, []byte(system), 0o644))
	return s
}

func TestDefaults(t *testing.T) {
	s := place(t, "", "")
	c, err := ReadConfig(s, "Node1", "", nil)
	require.NoError(t, err)
	require.Equal(t, "node1", c.Host)
	require.Equal(t, "Node1", c.Alias)
	require.Equal(t, "me", c.User)
	require.EqualValues(t, 22, c.Port)
	require.Equal(t, Refuse, c.Strict)
	require.Equal(t, []string{s.Home + "/.ssh/known_hosts", s.Home + "/.ssh/known_hosts2"}, c.KnownHosts)
	require.Equal(t, []string{"/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2"}, c.GlobalHosts)
	require.Len(t, c.Identities, 5)
	require.False(t, c.IdentityGiven)
	require.Equal(t, "/sock", c.Agent)
	require.Equal(t, "tcp", c.Network)
	require.Equal(t, 3, c.AliveCount)
	require.Empty(t, c.OtherAuth)
}

// The user's file comes before the system's, options before both, and what the
// caller gives before all.
func TestOrder(t *testing.T) {
	s := place(t, "Host n*\n Port 1\n User one\n IdentityFile ~/a\n",
		"Port 2\nUser two\nHostKeyAlias k\nIdentityFile %d/%r-%h-%p-%n-%L-%u-%k-%%-${X}\n")
	c, err := ReadConfig(s, "n1", "", nil)
	require.NoError(t, err)
	require.EqualValues(t, 1, c.Port)
	require.Equal(t, "one", c.User)
	require.Equal(t, []string{s.Home + "/a", s.Home + "/one-n1-1-n1-front-me-k-%-x"}, c.Identities)
	c, err = ReadConfig(s, "n1", "three", []string{"-p", "3", "-oUser=four", "-o", "ConnectTimeout 1m30s", "-qT"})
	require.NoError(t, err)
	require.EqualValues(t, 3, c.Port)
	require.Equal(t, "three", c.User)
	require.Equal(t, 90*time.Second, c.ConnectTimeout)
	c, err = ReadConfig(s, "n1", "", []string{"-F", s.SystemFile})
	require.NoError(t, err)
	require.EqualValues(t, 2, c.Port)
	c, err = ReadConfig(s, "n1", "", []string{"-F", "/dev/null"})
	require.NoError(t, err)
	require.EqualValues(t, 22, c.Port)
	c, err = ReadConfig(s, "n1", "", []string{"-F", "none"})
	require.NoError(t, err)
	require.EqualValues(t, 22, c.Port)
}

// What the distributions' own files say must not keep anybody from native ssh.
func TestDistributions(t *testing.T) {
	s := place(t, "", "")
	policy := filepath.Join(s.Home, "policy")
	require.NoError(t, os.WriteFile(policy,
		[]byte("Ciphers aes256-gcm@openssh.com,aes256-ctr\nMACs hmac-sha2-256\nGSSAPIKexAlgorithms "+
			"gss-nistp256-sha256-\n"+
			"KexAlgorithms curve25519-sha256\nPubkeyAcceptedAlgorithms "+
			"ssh-ed25519,rsa-sha2-256\nCASignatureAlgorithms ssh-ed25519\nRequiredRSASize 2048\n"), 0o644))
	require.NoError(t, os.WriteFile(s.SystemFile, []byte("Match final all\n Include "+policy+
		"\n GSSAPIAuthentication yes\n ForwardX11Trusted yes\n"+
		" SendEnv LANG LC_*\nHost *\n HashKnownHosts yes\n"), 0o644))
	c, err := ReadConfig(s, "n", "", nil)
	require.NoError(t, err)
	require.Equal(t, "curve25519-sha256", c.Kex)
	require.Equal(t, 2048, c.MinRSABits)
	require.Equal(t, []string{"gssapi-with-mic"}, c.OtherAuth)
	require.True(t, c.HashHosts)
}

func TestUnfit(t *testing.T) {
	for text, why := range map[string]string{
		"Port 1\nProxyJump gate":            "config:2: proxyjump gate",
		"Host a\nMatch exec true":           "config:2: match exec",
		"CanonicalizeHostname always":       "canonicalizehostname always",
		"VerifyHostKeyDNS yes":              "verifyhostkeydns yes",
		"PKCS11Provider /lib/x.so":          "pkcs11provider",
		"LocalForward 1 a:1":                "localforward",
		"RemoteCommand true":                "remotecommand",
		"Nonsense yes":                      "nonsense is not for native ssh",
		"Host b\nNonsense yes":              "nonsense",
		"IdentityFile ~other/key":           "identityfile ~other/key",
		"IdentityFile %C":                   "identityfile %C",
		"User":                              "user without a value",
		"HostName -oProxyCommand=x":         "hostname",
		"GSSAPIKeyExchange yes":             "gssapikeyexchange",
		"RekeyLimit 1G 1h":                  "rekeylimit by time",
		"PreferredAuthentications password": "preferredauthentications",
	} {
		_, err := ReadConfig(place(t, text+"\n", ""), "a", "", nil)
		var u *Unfit
		require.ErrorAs(t, err, &u, text)
		require.ErrorContains(t, err, why)
	}
	for _, args := range []string{"-J gate", "-v", "-o ProxyCommand=x", "-W a:1", "host", "-i", "-N", "-D 1"} {
		_, err := ReadConfig(place(t, "", ""), "a", "", strings.Fields(args))
		require.Error(t, err, args)
	}
}

// ssh reads no file that others may write.
func TestExposed(t *testing.T) {
	s := place(t, "Port 1\n", "")
	require.NoError(t, os.Chmod(s.UserFile, 0o622))
	_, err := ReadConfig(s, "a", "", nil)
	require.ErrorContains(t, err, "others may write it")
}

func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		s, pattern string
		fits       bool
	}{
		{"node1", "node?", true}, {"node", "node?", false}, {"node12", "node?", false}, {"a.b.c", "*.c", true},
		{"abc", "a*b*c", true},
		{"ac", "a*b*c", false}, {"", "*", true}, {"", "", true}, {"a", "", false}, {"[n]:22", "[n]:*", true},
		{"aab", "*ab", true},
	} {
		require.Equal(t, c.fits, Match(c.s, c.pattern), "%s %s", c.s, c.pattern)
	}
	require.True(t, MatchList("b", "a,b"))
	require.False(t, MatchList("b", "*,!b"))
	require.False(t, MatchList("b", "!a"))
}

func TestWords(t *testing.T) {
	for line, want := range map[string][]string{
		"  Port 22  ":            {"port", "22"},
		"Port=22":                {"port", "22"},
		"Port = 22":              {"port", "22"},
		"\"Port\" 22":            {"port", "22"},
		"a b#c # d":              {"a", "b#c"},
		`a "b c" 'd e' f\ g h\"`: {"a", "b c", "d e", "f g", `h"`},
		"# all of it":            {""},
		"SetEnv A=b=c":           {"setenv", "A=b=c"},
		"\tHost\ta\tb\r":         {"host", "a", "b"},
		"ProxyCommand x \"y":     nil,
		"Include = \"a b\" c":    {"include", "a b", "c"},
	} {
		key, args, err := words(line)
		if want == nil {
			require.Error(t, err, line)
			continue
		}
		require.NoError(t, err, line)
		require.Equal(t, want, append([]string{key}, args...), line)
	}
}

// Whatever a file holds, reading it ends, and what comes out is usable.
func FuzzResolve(f *testing.F) {
	for _, seed := range []string{"Host a\nPort 1", "Match all\nUser b", "Include config\n", "IdentityFile \"%d/%h\"",
		"RekeyLimit 1G none", "ConnectTimeout 1w2d", "ConnectTimeout 9999w9999w"} {
		f.Add(seed)
	}
	home := f.TempDir()
	name := filepath.Join(home, "config")
	f.Fuzz(func(t *testing.T, text string) {
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		s := System{Home: home, User: "me", Host: "h", Getenv: func(string) string { return "" }, SystemFile: name,
			UserFile: filepath.Join(home, "none")}
		c, err := ReadConfig(s, "a", "", nil)
		if err != nil {
			var u *Unfit
			require.ErrorAs(t, err, &u)
			return
		}
		require.NotZero(t, c.Port)
		require.NotEmpty(t, c.Host)
		require.False(t, strings.HasPrefix(c.Host, "-"))
		require.NotEmpty(t, c.Network)
		require.Positive(t, c.Attempts)
		require.Positive(t, c.AliveCount)
		require.GreaterOrEqual(t, c.ConnectTimeout, time.Duration(0))
	})
}
