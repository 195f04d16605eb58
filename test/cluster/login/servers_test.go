//go:build cluster || soak

package login

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"ibrun/test/vcluster/cluster"
	"ibrun/test/waitfor"
)

// site is a virtual node with servers of several kinds, and the user's keys on the front.
type site struct {
	*cluster.Cluster
	dir  string // seen by all hosts
	keys map[string]string
}

// servers by port. All have the host keys host_ed25519 and host_rsa.
var servers = map[int]string{
	2201: "",
	2202: "HostCertificate {DIR}/host_ed25519-cert.pub",
	2203: "PubkeyAuthentication no\nPasswordAuthentication yes",
	2204: "AuthenticationMethods publickey,publickey",
	2205: "AuthorizedKeysFile none\nTrustedUserCAKeys {DIR}/ca.pub",
	2206: "KexAlgorithms diffie-hellman-group18-sha512",
	2207: "Banner {DIR}/banner",
	2208: "MaxAuthTries 2",
	2209: "Ciphers aes256-ctr\nMACs hmac-sha2-512\nKexAlgorithms ecdh-sha2-nistp521",
	2210: "AuthenticationMethods publickey,password\nPasswordAuthentication yes",
	2211: "HostKeyAlgorithms rsa-sha2-256",
	2212: "Ciphers 3des-cbc",
}

const serverConfig = `HostKey {DIR}/host_ed25519
HostKey {DIR}/host_rsa
PidFile none
UsePAM no
UseDNS no
PermitRootLogin yes
StrictModes no
PrintMotd no
MaxStartups 1000
PermitUserEnvironment no
`

// The rest of a server's configuration; what stands first counts. Without
// sntrup761 the program ssh takes an eighth of the time.
const serverDefaults = `
AuthorizedKeysFile /etc/authorized
PasswordAuthentication no
KbdInteractiveAuthentication no
KexAlgorithms curve25519-sha256,ecdh-sha2-nistp256,diffie-hellman-group14-sha256
`

func newSite(t *testing.T) *site {
	c := cluster.Require(t, cluster.Config{Nodes: 1})
	s := &site{Cluster: c, dir: filepath.Join(c.Shared(), "login"), keys: map[string]string{}}
	require.NoError(t, os.Mkdir(s.dir, 0o755))
	for _, k := range []struct{ name, kind, phrase string }{
		{"host_ed25519", "ed25519", ""}, {"host_rsa", "rsa", ""}, {"ca", "ed25519", ""}, {"good", "ed25519", ""},
		{"second", "ecdsa", ""},
		{"rsa", "rsa", ""}, {"locked", "ed25519", "secret"}, {"bad1", "ed25519", ""}, {"bad2", "ed25519", ""},
		{"bad3", "ed25519", ""},
	} {
		s.run(t, "ssh-keygen", "-q", "-t", k.kind, "-N", k.phrase, "-C", k.name, "-f", s.path(k.name))
		pub, err := os.ReadFile(s.path(k.name + ".pub"))
		require.NoError(t, err)
		s.keys[k.name] = strings.Join(strings.Fields(string(pub))[:2], " ")
	}
	s.run(t, "ssh-keygen", "-q", "-s", s.path("ca"), "-I", "host", "-h", "-n", "node0001", s.path("host_ed25519.pub"))
	s.run(t, "ssh-keygen", "-q", "-s", s.path("ca"), "-I", "user", "-n", "root", s.path("bad1.pub"))
	// sshd reads this one as the user who logs in.
	require.NoError(t, os.WriteFile(filepath.Join(s.Etc(), "authorized"), []byte(s.keys["good"]+"\n"+s.keys["second"]+
		"\n"+s.keys["rsa"]+"\n"+s.keys["locked"]+"\n"), 0o644))
	s.write(t, "banner", strings.Repeat("Welcome. All you do here is recorded.\n", 40))
	loose, err := os.ReadFile(s.path("good"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(s.path("loose"), loose, 0o644))
	s.append(t, filepath.Join(s.Etc(), "passwd"), "worker:x:1234:1234::/:/bin/sh\n")
	s.append(t, filepath.Join(s.Etc(), "shadow"), "worker:*:19000:0:99999:7:::\n")
	for port, special := range servers {
		s.serve(t, port, special)
	}
	return s
}

func (s *site) path(name string) string { return filepath.Join(s.dir, name) }

// fill replaces the names in braces.
func (s *site) fill(text string) string {
	r := []string{"{DIR}", s.dir, "{ADDR}", s.Address("node0001")}
	for name, key := range s.keys {
		r = append(r, "{"+name+"}", key)
	}
	return strings.NewReplacer(r...).Replace(text)
}

func (s *site) write(t *testing.T, name, text string) {
	require.NoError(t, os.WriteFile(s.path(name), []byte(text), 0o600))
}

func (s *site) append(t *testing.T, path, text string) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString(text)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

func (s *site) run(t *testing.T, args ...string) {
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// serve starts an sshd on the node.
func (s *site) serve(t *testing.T, port int, special string) {
	name := fmt.Sprintf("sshd_%d", port)
	s.write(t, name, s.fill(fmt.Sprintf("Port %d\n%s%s%s", port, special+"\n", serverConfig, serverDefaults)))
	cmd := s.Exec(context.Background(), "node0001", "/usr/sbin/sshd", "-D", "-e", "-f", s.path(name))
	log, err := os.Create(s.path(name + ".log"))
	require.NoError(t, err)
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		log.Close()
	})
}

// listen waits until all servers do.
func (s *site) listen(t *testing.T) {
	waitfor.Require(t, "all sshd listen", func() bool {
		out, err := s.Exec(t.Context(), "node0001", "cat", "/proc/net/tcp").Output()
		for port := range servers {
			if err != nil || !strings.Contains(string(out), fmt.Sprintf(":%04X ", port)) {
				return false
			}
		}
		return true
	})
}

// agent starts an ssh-agent with some keys and returns its socket.
func (s *site) agent(t *testing.T, keys ...string) string {
	socket := filepath.Join(t.TempDir(), "agent")
	cmd := exec.Command("ssh-agent", "-D", "-a", socket)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	waitfor.Require(t, "ssh-agent listens", func() bool {
		c, err := net.Dial("unix", socket)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	for _, k := range keys {
		add := exec.Command("ssh-add", "-q", s.path(k))
		add.Env = append(os.Environ(), "SSH_AUTH_SOCK="+socket, "SSH_ASKPASS="+s.path("askpass"),
			"SSH_ASKPASS_REQUIRE=force")
		out, err := add.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	return socket
}
