//go:build cluster || soak

package login

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// situation is a configuration and what comes of it, with both clients.
type situation struct {
	name   string
	config string   // of ssh -F; {KNOWN} is the known_hosts file
	known  string   // what that has at first
	args   []string // of ssh, before the host; -F CONFIG is added where config is not empty
	host   string   // x where empty
	agent  string   // agents by name: empty, one
	want   string   // verdict
	exec   bool     // native ssh leaves it to ssh
	learns bool     // known_hosts has a line more afterwards
	prints string   // part of what native ssh says
}

const (
	ok2201 = "root@{ADDR}:2201"
	plain  = "HostName node0001\nPort 2201\nUserKnownHostsFile {KNOWN}\nGlobalKnownHostsFile none\nIdentityFile " +
		"{DIR}/good\nIdentitiesOnly yes\nIdentityAgent none\n"
	right = "[node0001]:2201 {host_ed25519}\n"
)

// with is the plain configuration below other lines, which count first.
func with(lines string) string { return lines + "\n" + plain }

var situations = slices.Concat([]situation{
	{name: "plain", config: plain, known: right, want: ok2201},
	{name: "unknown host", config: plain, want: "host key", prints: "not known"},
	{name: "unknown, yes", config: with("StrictHostKeyChecking yes"), want: "host key"},
	{name: "unknown, accept-new", config: with("StrictHostKeyChecking accept-new"), want: ok2201, learns: true},
	{name: "unknown, accept-new, hashed", config: with("StrictHostKeyChecking accept-new\nHashKnownHosts yes"),
		want: ok2201, learns: true},
	{name: "unknown, no", config: with("StrictHostKeyChecking no"), want: ok2201, learns: true},
	{name: "unknown, off", config: with("StrictHostKeyChecking off"), want: ok2201, learns: true},
	{name: "unknown, ask", config: with("StrictHostKeyChecking ask"), want: "host key"},
	{name: "changed", config: plain, known: "[node0001]:2201 {ca}\n", want: "host key",
		prints: "ssh-keygen -R '[node0001]:2201'"},
	{name: "changed, accept-new", config: with("StrictHostKeyChecking accept-new"), known: "[node0001]:2201 {ca}\n",
		want: "host key", prints: "known:1 has another"},
	{name: "changed, no", config: with("StrictHostKeyChecking no"), known: "[node0001]:2201 {ca}\n", want: ok2201,
		exec: true},
	{name: "changed, another type known", config: plain, known: "[node0001]:2201 {second}\n", want: "host key"},
	{name: "both right and wrong", config: plain, known: "[node0001]:2201 {ca}\n" + right, want: ok2201},
	{name: "only the rsa key known", config: plain, known: "[node0001]:2201 {host_rsa}\n", want: ok2201},
	{name: "wrong ed25519, right rsa", config: plain, known: "[node0001]:2201 {ca}\n[node0001]:2201 {host_rsa}\n",
		want: "host key"},
	{name: "known without port", config: plain, known: "node0001 {host_ed25519}\n", want: ok2201},
	{name: "another key without port", config: plain, known: "node0001 {ca}\n", want: "host key"},
	{name: "known by wildcard", config: plain, known: "[node*]:2201 {host_ed25519}\n", want: ok2201},
	{name: "known by star", config: plain, known: "* {host_ed25519}\n", want: ok2201},
	{name: "negated", config: plain, known: "*,![node0001]:* {host_ed25519}\n", want: ok2201},
	{name: "negated both ways", config: plain, known: "*,![node0001]:*,!node0001 {host_ed25519}\n", want: "host key"},
	{name: "in capitals", config: with("HostName NODE0001"), known: "[Node0001]:2201 {host_ed25519}\n", want: ok2201},
	{name: "known by address only", config: plain, known: "[{ADDR}]:2201 {host_ed25519}\n", want: "host key"},
	{name: "by address", config: with("HostName {ADDR}"), known: "[{ADDR}]:2201 {host_ed25519}\n", want: ok2201},
	{name: "spoilt lines", config: plain,
		known: "#\n\nrubbish\n[node0001]:2201 ssh-ed25519 ????\n@what [node0001]:2201 {ca}\n[node0001]:2201 ssh-rsa " +
			"AAAA\n" + right, want: ok2201},
	{name: "revoked", config: plain, known: right + "@revoked * {host_ed25519}\n", want: "host key", prints: "revoked"},
	{name: "revoked for another", config: plain, known: right + "@revoked elsewhere {host_ed25519}\n", want: ok2201},
	{name: "key alias", config: with("HostKeyAlias cluster"), known: "cluster {host_ed25519}\n", want: ok2201},
	{name: "key alias, not known", config: with("HostKeyAlias cluster"), known: right, want: "host key"},
	{name: "second file", config: with("UserKnownHostsFile /nonexistent {KNOWN}"), known: right, want: ok2201},
	{name: "system's file", config: with("UserKnownHostsFile none\nGlobalKnownHostsFile {KNOWN}"), known: right,
		want: ok2201},
	{name: "nowhere to write", config: with("StrictHostKeyChecking accept-new\nUserKnownHostsFile /dev/null"),
		want: ok2201},
	{name: "authority", config: with("Port 2202"), known: "@cert-authority node* {ca}\n", want: "root@{ADDR}:2202"},
	{name: "authority with port", config: with("Port 2202"), known: "@cert-authority [node*]:2202 {ca}\n",
		want: "root@{ADDR}:2202"},
	{name: "other authority", config: with("Port 2202"), known: "@cert-authority * {bad2}\n", want: "host key"},
	{name: "other authority, key known", config: with("Port 2202"),
		known: "@cert-authority * {bad2}\n[node0001]:2202 {host_ed25519}\n", want: "root@{ADDR}:2202"},
	{name: "authority, other name", config: with("Port 2202\nHostKeyAlias b"), known: "@cert-authority b {ca}\n",
		want: "host key"},
	{name: "authority revoked", config: with("Port 2202"), known: "@cert-authority * {ca}\n@revoked * {ca}\n",
		want: "host key"},
	{name: "check by address too", config: with("CheckHostIP yes"), known: right, want: ok2201, exec: true},
	{name: "known hosts by command", config: with("KnownHostsCommand /bin/false"), known: right, want: "configuration",
		exec: true},
}, keySituations, configSituations)

// requireSameVerdict logs in with native ssh in each situation and requires its verdict. With both, or where a key
// is learnt, it requires the same of the program ssh.
func requireSameVerdict(t *testing.T, situations []situation, both bool) {
	s := newSite(t)
	s.write(t, "askpass", "#!/bin/sh\necho secret\n")
	require.NoError(t, os.Chmod(s.path("askpass"), 0o700))
	agents := map[string]string{"": "", "good": s.agent(t, "good"), "locked": s.agent(t, "locked"), "many": s.agent(t,
		"bad1", "bad2", "bad3", "good")}
	s.append(t, filepath.Join(s.Etc(), "ssh/ssh_config"), "\n"+s.fill(systemConfig))
	for name, text := range included {
		s.write(t, name, s.fill(text))
	}
	s.listen(t)
	seen := map[string]bool{}
	logins := map[string][]*attempt{}
	for _, c := range situations {
		require.False(t, seen[c.name], c.name)
		seen[c.name] = true
		logins[c.agent] = append(logins[c.agent], s.prepare(t, c))
	}
	for agent, all := range logins {
		s.native(t, agents[agent], all)
	}
	for _, c := range slices.Concat(slices.Collect(maps.Values(logins))...) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			want := s.fill(c.want)
			var theirKnown string
			if both || c.learns {
				theirs := s.prepare(t, c.situation)
				s.ssh(t, agents[c.agent], theirs)
				require.Equal(t, want, theirs.verdict(), "ssh: %s", theirs.said[1])
				theirKnown = theirs.knownHosts(t)
			}
			ours, ourKnown, said := c.verdict(), c.knownHosts(t), c.said[1]
			if c.exec {
				require.Equal(t, "exec", ours, said)
				return
			}
			require.Equal(t, want, ours, said)
			require.Contains(t, said, c.prints)
			if c.learns {
				lines := 0
				if c.known != "" {
					lines = 1
				}
				require.Len(t, strings.Split(strings.TrimSpace(ourKnown), "\n"), lines+1, ourKnown)
				s.findable(t, theirKnown, ourKnown)
			} else {
				require.Equal(t, s.fill(c.known), ourKnown)
			}
		})
	}
}

// findable asks ssh-keygen whether both clients wrote down the same key of the same host.
func (s *site) findable(t *testing.T, files ...string) {
	var keys [2]string
	for i, text := range files {
		f := filepath.Join(t.TempDir(), "known")
		require.NoError(t, os.WriteFile(f, []byte(text), 0o600))
		out, err := exec.Command("ssh-keygen", "-F", "[node0001]:2201", "-f", f).Output()
		require.NoError(t, err, text)
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		w := strings.Fields(lines[len(lines)-1])
		keys[i] = strings.Join(w[len(w)-2:], " ")
		require.Equal(t, strings.HasPrefix(files[0], "|1|"), strings.HasPrefix(text, "|1|"), text)
	}
	require.Equal(t, keys[0], keys[1])
}

// attempt is a login in a situation.
type attempt struct {
	situation
	words []string  // of ssh, the last of which is the host
	file  string    // known_hosts
	said  [2]string // on standard output and standard error
}

func (l *attempt) verdict() string { return verdict(l.said[0], l.said[1]) }

// knownHosts returns what the attempt has left in known_hosts.
func (l *attempt) knownHosts(t *testing.T) string {
	text, err := os.ReadFile(l.file)
	require.NoError(t, err)
	return string(text)
}

// prepare writes the files of an attempt.
func (s *site) prepare(t *testing.T, c situation) *attempt {
	dir := t.TempDir()
	l := &attempt{situation: c, file: filepath.Join(dir, "known")}
	require.NoError(t, os.WriteFile(l.file, []byte(s.fill(c.known)), 0o600))
	fill := func(text string) string { return strings.ReplaceAll(s.fill(text), "{KNOWN}", l.file) }
	if c.config != "" {
		config := filepath.Join(dir, "config")
		require.NoError(t, os.WriteFile(config, []byte(fill(c.config)), 0o600))
		l.words = append(l.words, "-F", config)
	}
	for _, a := range c.args {
		l.words = append(l.words, fill(a))
	}
	l.words = append(l.words, cmp.Or(c.host, "x"))
	return l
}

// native makes attempts with native ssh, in one process.
func (s *site) native(t *testing.T, agent string, logins []*attempt) {
	var words [][]string
	for _, l := range logins {
		words = append(words, l.words)
	}
	text, err := json.Marshal(words)
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := s.client(t, agent, self)
	cmd.Env = append(cmd.Env, probeVariable+"=1")
	cmd.Stdin, cmd.Stderr = bytes.NewReader(text), os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err)
	var said [][2]string
	require.NoError(t, json.Unmarshal(out, &said))
	require.Len(t, said, len(logins))
	for i, l := range logins {
		l.said = said[i]
	}
}

// ssh makes an attempt with the program ssh.
func (s *site) ssh(t *testing.T, agent string, l *attempt) {
	words, host := l.words[:len(l.words)-1], l.words[len(l.words)-1]
	cmd := s.client(t, agent, slices.Concat([]string{"ssh", "-T", "-x", "-a", "-e", "none", "-o", "BatchMode=yes", "-o",
		"UpdateHostKeys=no"}, words, []string{"--", host, sshdHere})...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	_ = cmd.Run() // the verdict says it
	l.said = [2]string{stdout.String(), stderr.String()}
}

// client returns the command of a client on the front, which ends with the test.
func (s *site) client(t *testing.T, agent string, words ...string) *exec.Cmd {
	cmd := s.Command(t.Context(), words...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "SSH_AUTH_SOCK=") })
	cmd.Env = append(cmd.Env, "NODE_NUMBER=0001")
	if agent != "" {
		cmd.Env = append(cmd.Env, "SSH_AUTH_SOCK="+agent)
	}
	return cmd
}
